"""Completion for bash.

The completion of click passes the words as bash splits them, also at `=` and `:`. An address such as
`postgresql://host/db` and an id such as `review:7` would reach Python in pieces. This one passes the line up to the
cursor, and removes from each result what bash considers an earlier word.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

END = "\x01"  # marks the cursor, so that a word before it and an empty word after a space are told apart

SCRIPT = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class BashCompletion(ShellComplete):
    """Reads the line up to the cursor, and writes `TYPE,VALUE` for each completion."""

    name = "bash"
    source_template = SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        words = split_line(os.environ.get("COMP_LINE", "") + END)
        return words[1:-1], words[-1].removesuffix(END)

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{self._after_break(str(item.value))}"

    def _after_break(self, value: str) -> str:
        """The part of a value that replaces the word before the cursor."""
        breaks, (_, incomplete) = os.environ.get("COMP_WORDBREAKS", ""), self.get_completion_args()
        after = max((incomplete.rfind(one) for one in breaks if not one.isspace()), default=-1) + 1
        return value[after:] if value.startswith(incomplete[:after]) else value


def split_line(line: str) -> list[str]:
    """The words of a command line, also if its last quote is not closed."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[Any] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return [str(one) for one in words]


add_completion_class(BashCompletion)
