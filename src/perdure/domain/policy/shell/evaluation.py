"""Texts that the shell evaluates once more: in arithmetic, an index or an indirection, the value of a variable is code.

`x='a[$(id)]'; echo $((x))` runs `id`, so arithmetic is certain only if it has numbers alone. A value may also come from
a file or from words, so where it was assigned is not looked at. A variable that a loop or `${NAME:=...}` sets is
assigned as by `export`: programs may look at it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perdure.domain.policy.shell.words import is_local

if TYPE_CHECKING:
    from tree_sitter import Node

EVALUATED = "it evaluates the value of a variable, which may be a command"
ASSIGNED = "it sets a variable that programs look at"
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_PLAIN = re.compile(rb"\$?[#?$!]|\$\{[#?]\}|\$\{#\w+(?:\[[@*]\])?\}|-?\d+|\"\d+\"|'\d+'")
_NAME = re.compile(rb"[A-Za-z_]\w*")
_LISTED = re.compile(rb"\$\{!\w+(?:[*@]|\[[@*]\])\}")  # names and indexes, not values
_ASSIGNING = re.compile(rb"\$\{(\w+)(?:\[.*\])?:?=", re.DOTALL)


def evaluation_problems(root: Node) -> list[str]:
    """What cannot be judged because the shell evaluates it again, or sets a variable without an assignment."""
    found: list[str] = []
    left = [root]
    while left:
        node = left.pop()
        if _is_evaluated(node):
            found.append(EVALUATED)
        if (name := _assigned(node)) and not is_local(name):
            found.append(ASSIGNED)
        left.extend(node.children)
    return list(dict.fromkeys(found))


def _is_evaluated(node: Node) -> bool:
    text = node.text or b""
    match node.type:
        case "arithmetic_expansion":
            return not _is_numeric(node)
        case "compound_statement":
            return text.startswith(b"((") and not _is_numeric(node)
        case "c_style_for_statement":
            return not all(_is_numeric(one) for one in node.named_children if one != node.child_by_field_name("body"))
        case "subscript":
            index = node.child_by_field_name("index")
            return index is None or re.fullmatch(rb"-?\d+|[@*]", index.text or b"") is None
        case "array":
            return any(re.match(rb"\[(?!\d+\]=)", one.text or b"") for one in node.named_children)
        case "expansion":
            return _is_evaluated_expansion(node, text)
        case "unary_expression":
            operator, operand = node.children[0].text, node.children[-1].text or b""
            return operator in (b"-v", b"-R") and _NAME.fullmatch(operand) is None
        case "test_command":
            return text.startswith(b"[[") and any(not _is_numeric(one) for one in _compared(node))
        case _:
            return False


def _is_evaluated_expansion(node: Node, text: bytes) -> bool:
    """Whether an expansion looks up a name that a variable holds, prompts, or cuts at computed places."""
    if text.startswith(b"${!"):
        return _LISTED.fullmatch(text) is None
    if text.endswith(b"@P}"):
        return True
    cut = next((at for at, one in enumerate(node.children) if one.type == ":"), len(node.children))
    return not all(_is_numeric(one) for one in node.children[cut:] if one.is_named)


def _is_numeric(node: Node) -> bool:
    """Whether an expression has numbers alone, or counts such as `$#`."""
    if _PLAIN.fullmatch(node.text or b""):
        return True
    return bool(node.named_children) and all(_is_numeric(one) for one in node.named_children)


def _compared(node: Node) -> list[Node]:
    """The operands that `[[` compares as numbers."""
    found: list[Node] = []
    left = [node]
    while left:
        one = left.pop()
        left.extend(one.named_children)
        operator = one.child_by_field_name("operator") if one.type == "binary_expression" else None
        if operator is not None and (operator.text or b"").decode() in _NUMERIC:
            found.extend(two for two in one.named_children if two != operator)
    return found


def _assigned(node: Node) -> str:
    """The variable that a loop or an expansion sets; empty if it sets none."""
    if node.type == "for_statement":
        variable = node.child_by_field_name("variable")
        return (variable.text or b"").decode("utf-8", "replace") if variable is not None else ""
    found = _ASSIGNING.match(node.text or b"") if node.type == "expansion" else None
    return found[1].decode() if found is not None else ""
