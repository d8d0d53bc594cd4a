"""Words of a command: what the shell makes of quotes, escapes, variables and braces, as far as it is known.

What is known only when the command runs (the value of a variable, the output of a substitution) becomes `UNKNOWN`. The
variables `HOME` and `PWD` are known well enough: they become `~` and `.`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perdure.domain.policy.shell.part import UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

KNOWN_VARIABLES = {"HOME": "~", "PWD": "."}
MOST = 64  # words that braces may make of one

_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_BRACES = re.compile(r"\{([^{}]*,[^{}]*|[^{}.]+\.\.[^{}]+)\}")
_GLOB = re.compile(rb"(?<!\\)[*?\[]")
_SPLIT = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})


def words_of(node: Node) -> list[str]:
    """The words that the shell makes of one: more than one only where braces are expanded."""
    text = text_of(node)
    if node.type != "concatenation" or _BRACES.search(text) is None:
        return [text]
    return _expand_braces(text) if not re.search(rb"[\\'\"]", _text(node)) else [UNKNOWN]  # braces may be quoted


def has_glob(node: Node) -> bool:
    """Whether the shell may expand a word to the names of files, which an agent can choose."""
    return node.type in ("word", "concatenation") and _GLOB.search(_text(node)) is not None


def text_of(node: Node) -> str:
    """The text of a word without its quotes; `UNKNOWN` for what is known only when the command runs."""
    match node.type:
        case "word" | "variable_name" | "test_operator" | "extglob_pattern" | "regex":
            return unescape(_text(node).decode())
        case "number" | "file_descriptor" | "special_variable_name":
            return _text(node).decode()
        case "raw_string":
            return _text(node).decode()[1:-1]
        case "ansi_c_string":
            return _ansi(_text(node).decode()[2:-1])
        case "string":
            return _quoted(node)
        case "concatenation" | "command_name":
            return "".join(text_of(one) for one in node.children)
        case "simple_expansion" | "expansion":
            return _variable(node)
        case "brace_expression":
            return _text(node).decode()
        case _:
            return UNKNOWN if node.is_named or node.type == "$" else _text(node).decode()


def expanded(given: str) -> str:
    """A here-document in which variables are expanded, with what is not known."""
    return re.sub(r"\$\{[^}]*\}|\$\([^)]*\)|\$\w+|`[^`]*`", UNKNOWN, given)


def assignment(node: Node) -> tuple[str, str]:
    """The name and the value of an assignment."""
    name = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    return (text_of(name) if name is not None else UNKNOWN, text_of(value) if value is not None else "")


def is_local(name: str) -> bool:
    """Whether a variable is one of the command's own: programs read those with capital characters, and proxies."""
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and not name.endswith("_proxy")


def unescape(text: str) -> str:
    """A word outside quotes: a backslash keeps the next sign, and a broken line continues."""
    return re.sub(r"\\(.?)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)


def _quoted(node: Node) -> str:
    """The text of a string in double quotes. Its parts keep the blanks between them."""
    found: list[str] = []
    at = node.start_byte + 1
    whole = _text(node)
    for child in node.named_children:
        found.append(whole[at - node.start_byte : child.start_byte - node.start_byte].decode())
        found.append(_text(child).decode() if child.type == "string_content" else text_of(child))
        at = child.end_byte
    found.append(whole[at - node.start_byte : -1].decode())
    return re.sub(r'\\([$`"\\\n])', lambda sign: "" if sign[1] == "\n" else sign[1], "".join(found))


def _variable(node: Node) -> str:
    named = node.named_children
    plain = node.type == "simple_expansion" or _text(node) == b"${" + _text(named[0]) + b"}" if named else False
    return KNOWN_VARIABLES.get(_text(named[0]).decode(), UNKNOWN) if plain else UNKNOWN


def _ansi(text: str) -> str:
    def decoded(found: re.Match[str]) -> str:
        for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if found[group]:
                code = int(found[group], base)
                return chr(code) if code < 0x110000 else UNKNOWN
        if found[5]:
            return chr(ord(found[5]) & 0x1F)
        return _SIMPLE.get(found[6], found[6])

    return _ANSI.sub(decoded, text)


def _expand_braces(text: str) -> list[str]:
    """The words of `{a,b}`. A sequence such as `{1..3}`, and too many words, are not known."""
    done: list[str] = []
    left = [text]
    while left:
        word = left.pop(0)
        found = _BRACES.search(word)
        if found is None:
            done.append(word)
        elif ".." in found[1] and "," not in found[1]:
            left.insert(0, word[: found.start()] + UNKNOWN + word[found.end() :])
        else:
            left[:0] = [word[: found.start()] + one + word[found.end() :] for one in found[1].split(",")]
        if len(done) + len(left) > MOST:
            return [UNKNOWN]
    return done


def _text(node: Node) -> bytes:
    return node.text or b""
