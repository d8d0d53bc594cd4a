"""Which commands only read. Such a command is `pure`: it may run again, and needs no approval.

In doubt a command counts as one that may change something: the programs are listed, and the options of each. Options
that write, send, start another program or never end are not in the lists, and neither are abbreviations or options of
other versions. A command that passes is not given to a shell: its words are run exactly as they are, so a shell cannot
interpret them differently. Where there is a sandbox, the folder is read-only for it, and it has no network.
"""

from __future__ import annotations

import re
import shlex

READ_ONLY: tuple[str, ...] = (
    "basename", "cat", "cmp", "cut", "dirname", "du", "echo", "find", "git blame", "git diff", "git log",
    "git ls-files", "git rev-parse", "git show", "git status", "grep", "head", "ls", "nl", "pwd", "readlink",
    "realpath", "rg", "sha256sum", "stat", "tail", "wc",
)  # fmt: skip

# Characters without a meaning for a shell, or quoted ones.
_PLAIN = re.compile(r"""(?:[\w./:=@%+,^~ \t-]|'[^'\n\r\0]*'|"[^"$`\\\n\r\0]*")*""", re.ASCII)

_FORMATS = r"oneline|short|medium|full|fuller|reference|raw|t?format:.*|.*%.*"  # any other name may come from a setting
_SEARCH = r"(color|colour|context|after-context|before-context|max-count|regexp|file)(=.*)?"

# Complete options that only read; `-` alone is a file. Git and GNU accept any unique prefix of an option.
_OPTIONS: dict[str, str] = {
    "basename": r"-[az]+|-s.*|--(multiple|zero|suffix=.*)",
    "cat": r"-[AbeEnstTuv]+|--(show-all|show-ends|show-tabs|show-nonprinting|number|number-nonblank|squeeze-blank)",
    "cmp": r"-[bls]+|-[in]\d*|--(print-bytes|verbose|quiet|silent|(bytes|ignore-initial)=.*)",
    "cut": r"-[szn]+|-[bcdf].*|--(complement|only-delimited|zero-terminated)"
    r"|--(bytes|characters|delimiter|fields|output-delimiter)=.*",
    "dirname": r"-z|--zero",
    "du": r"-[0abcDhHklLmPsSx]+|-h?d\d*|--(all|apparent-size|bytes|total|human-readable|summarize|one-file-system)"
    r"|--(max-depth|exclude|threshold|block-size)=.*",
    "echo": r".*",
    "find": r"-([HLPado]|O[0-3]|maxdepth|mindepth|i?name|i?path|i?wholename|i?regex|regextype|x?type|size|empty"
    r"|[acm]time|[acm]min|[ac]?newer|newer[aBcm][aBcmt]|perm|user|group|uid|gid|nouser|nogroup|links|inum|samefile"
    r"|i?lname|readable|writable|executable|print0?|printf|ls|prune|depth|xdev|mount|quit|and|or|not|true|false|follow"
    r"|daystart|noleaf|fstype)|-\d+[bcwkMG]?|-[ugoa]*[+=][rwxstX]*",
    "git": r"-[pnswbRMCz]|-n?\d+|-U\d+|-[SGL].+"
    r"|--(oneline|stat|shortstat|numstat|summary|graph|all|branch|short|long|porcelain|cached|staged|patch|no-patch"
    r"|name-only|name-status|reverse|follow|merges|no-merges|first-parent|decorate|abbrev-commit|no-color|no-renames"
    r"|no-ext-diff|no-textconv|check|ignored|others|exclude-standard|modified|deleted|show-toplevel|abbrev-ref"
    r"|is-inside-work-tree|verify|word-diff|minimal|patience|histogram|no-pager|show-stash|ahead-behind)"
    r"|--(since|until|after|before|author|committer|grep|max-count|skip|date|unified|color|decorate"
    r"|diff-filter|untracked-files|porcelain|abbrev)=.*"
    rf"|--(format|pretty)=({_FORMATS})",
    "grep": r"-[EFGPivwxycLloqsbHhnTzZaIrRuU\d]*([ABCmef].*)?"
    r"|--(extended-regexp|fixed-strings|basic-regexp|perl-regexp|ignore-case|no-ignore-case|invert-match|word-regexp"
    r"|line-regexp|count|files-with-matches|files-without-match|only-matching|quiet|silent|no-messages|byte-offset"
    r"|with-filename|no-filename|line-number|initial-tab|null|text|recursive|dereference-recursive|null-data"
    rf"|line-buffered|{_SEARCH}|(include|exclude|exclude-dir|binary-files)(=.*)?)",
    "head": r"-\d+|-[qvz]+|-[nc][+-]?\d*[bkKMG]?|--(quiet|silent|verbose|zero-terminated|(lines|bytes)(=.*)?)",
    "ls": r"-[1aAbBcCdDfFgGhHiIklLmnNopqQrRsStTuUvwxXZ]+|--(all|almost-all|author|escape|directory|classify|full-time"
    r"|group-directories-first|no-group|human-readable|si|dereference|inode|literal|numeric-uid-gid|quote-name|reverse"
    r"|recursive|size|zero)|--(block-size|color|classify|format|hide|ignore|indicator-style|sort|time|time-style|width"
    r"|quoting-style)=.*|--color",
    "nl": r"-p|-[bdfhilnsvw].*",
    "pwd": r"-[LP]+|--(logical|physical)",
    "readlink": r"-[efmnqsvz]+|--(canonicalize(-existing|-missing)?|no-newline|quiet|silent|verbose|zero)",
    "realpath": r"-[eEmLPqsz]+|--(canonicalize-existing|canonicalize-missing|logical|physical|quiet|strip|no-symlinks"
    r"|zero)|--relative-(to|base)=.*",
    "rg": r"-[abcFHhiIlLnNopPqsSuUvwx.0]*([ABCdeEfgjmMrtT].*)?"
    r"|--(case-sensitive|ignore-case|smart-case|fixed-strings|word-regexp|line-regexp|invert-match|count|count-matches"
    r"|files|files-with-matches|files-without-match|follow|hidden|heading|no-heading|json|line-number|no-line-number"
    r"|multiline|multiline-dotall|no-filename|with-filename|no-ignore|no-ignore-vcs|no-messages|null|only-matching"
    r"|pcre2|pretty|quiet|stats|text|trim|type-list|unrestricted|vimgrep|column|no-config|passthru)"
    rf"|--({_SEARCH}|(glob|iglob|type|type-not|max-depth|max-filesize|max-columns|replace|sort|sortr|threads)(=.*)?)",
    "sha256sum": r"-[bctwz]+|--(binary|check|tag|text|zero|ignore-missing|quiet|status|strict|warn)",
    "stat": r"-[fLt]+|-c.*|--(dereference|file-system|terse)|--(format|printf)=.*",
    "tail": r"[+-]\d+[bkKMG]?|-[qvz]+|-[nc][+-]?\d*[bkKMG]?"
    r"|--(quiet|silent|verbose|zero-terminated|(lines|bytes)(=.*)?)",
    "wc": r"-[clLmw]+|--(bytes|chars|lines|max-line-length|words|total=.*)",
}
_LISTED = {program: re.compile(options) for program, options in _OPTIONS.items()}

# What keeps git from running a program that the repository or a nested one names.
_QUIET_DIFF = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
_QUIET = {
    "blame": ("--no-textconv",),
    "diff": _QUIET_DIFF,
    "log": _QUIET_DIFF,
    "show": _QUIET_DIFF,
    "status": ("--ignore-submodules=dirty",),
}


def words(command: str) -> list[str] | None:
    """The words of a command in which a shell would find nothing but words; else None."""
    if not _PLAIN.fullmatch(command):
        return None
    found = shlex.split(command)
    return None if any(word.startswith("~") for word in found) else found


def is_read_only(command: str, prefixes: tuple[str, ...] = READ_ONLY) -> bool:
    """Whether a command only reads, judged from its text and the declared prefixes."""
    found = words(command)
    if not found:
        return False
    prefix = next((one for one in map(str.split, prefixes) if found[: len(one)] == one), None)
    if prefix is None:
        return False
    listed = _LISTED.get(found[0])  # a program that a caller declared has no list
    return listed is None or _only_listed(found[0], found[len(prefix) :], listed)


def quiet_git(argv: list[str]) -> list[str]:
    """The words after `git` of a read-only command, with options that keep git from starting other programs."""
    return [argv[0], *_QUIET.get(argv[0], ()), *argv[1:]]


def _only_listed(program: str, rest: list[str], listed: re.Pattern[str]) -> bool:
    """Whether every option is listed. `%G` makes git run a signature checker; `tail +1f` follows a file."""
    marks = ("-", "+") if program == "tail" else ("-",)
    before = ""
    for word in rest:
        if word == "--" and program != "find" and not before.startswith("-"):  # not an option's value
            return True
        if program == "git" and "%G" in word:
            return False
        if word.startswith(marks) and word not in ("-", "--") and not listed.fullmatch(word):
            return False
        before = word
    return True
