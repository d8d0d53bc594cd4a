"""Text that the tree of a command leaves out, and words that it joins or splits otherwise than the shell.

Where a shell and the tree read a text differently, a destructive program could hide among the words of a harmless one.
So each sign must belong to a word, words of one program stand on one line with blanks between them, and there are no
signs that people cannot see.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

GAP = "it has text that cannot be assigned to a word"
ONE_LINE = frozenset({
    "command", "redirected_statement", "file_redirect", "herestring_redirect", "declaration_command",
    "unset_command", "variable_assignments", "concatenation",
})  # fmt: skip
ARGUMENTS = frozenset({
    "command_name", "word", "string", "raw_string", "ansi_c_string", "concatenation", "expansion",
    "simple_expansion", "number", "command_substitution", "process_substitution", "arithmetic_expansion",
    "brace_expression", "translated_string",
})  # fmt: skip
_BLANK = re.compile(rb"(?<!\\)(?:\\\\)*[ \t\n]")
_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00a0\u00ad\u061c\u115f\u1160\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


def sign_problem(text: str) -> str:
    """The first sign that people cannot see, or that ends a line in some programs only; empty if there is none."""
    found = _CONTROL.search(text)
    return "" if found is None else f"it has the invisible or control character U+{ord(found[0]):04X}"


def has_gaps(root: Node, source: bytes) -> bool:
    """Whether text belongs to no leaf, a line is broken inside a word, or words touch each other."""
    at = 0
    left = [root]
    while left:
        node = left.pop()
        if node.child_count and node.type not in ("string", "heredoc_body"):
            if _has_wrong_blanks(node, source):
                return True
            left.extend(reversed(node.children))
            continue
        gap = source[at : node.start_byte].decode("utf-8", "replace")
        at = max(at, node.end_byte)
        if not _GAP.fullmatch(gap) or gap.startswith("\\") or (node.type == "word" and _BLANK.search(node.text or b"")):
            return True
    return bool(source[at:].strip(b" \t\n"))


def _has_wrong_blanks(node: Node, source: bytes) -> bool:
    """Whether words of a program touch, a line ends between them, or one word has blanks in it."""
    for first, second in pairwise(node.children):
        gap = source[first.end_byte : second.start_byte]
        if first.type == "variable_assignment" and not gap and second.is_named:
            return True
        if node.type == "concatenation" and gap:
            return True
        if node.type in ONE_LINE and node.type != "concatenation":
            if not gap and first.type in ARGUMENTS and second.type in (*ARGUMENTS, "variable_assignment"):
                return True
            if b"\n" in gap.replace(b"\\\n", b""):
                return True
    return False


def words_after(node: Node, source: bytes) -> list[Node]:
    """The words of the program that the tree takes for part of a redirection: all behind the first.

    A number that touches the next redirection is its file descriptor.
    """
    if node.type == "heredoc_redirect":
        return [one for one in node.named_children if one.type in ARGUMENTS]
    found = [one for one in node.named_children if one.type != "file_descriptor"][1:]
    return [
        one
        for one in found
        if one.type != "number" or source[one.end_byte : one.end_byte + 1] not in (b"<", b">", b"&")
    ]
