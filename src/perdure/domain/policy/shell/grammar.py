"""The grammar of commands: that of tree-sitter for bash, which contains the syntax of sh."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Parser


def parser() -> Parser:
    """A parser. One parser cannot be used by two threads."""
    from tree_sitter import Parser

    return Parser(_language())


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
