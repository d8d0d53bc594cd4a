"""Where what a command has read comes from, judged by its text: the network, and files outside the folder.

A rule with `origin` sees it as it sees what `fetch_url` and `read_file` have read. Only the text is looked at, so a
program that is not known to reach the network, or a script that reads files, is not seen here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from perdure.agent.commands.sandbox import available
from perdure.agent.files.workspace import Workspace
from perdure.agent.reach import NETWORKLESS
from perdure.agent.tools.result import short
from perdure.domain.policy.shell.analysis import analyse
from perdure.domain.policy.shell.network_programs import reaches_network
from perdure.domain.policy.shell.part import UNKNOWN, CommandPart, is_inside

MOST = 20  # origins of one command


def origins_of(command: str, workspace: Workspace) -> list[str]:
    """The origins of what a command has read, besides the command itself."""
    found, with_network = analyse(command), workspace.network or available(workspace.root) != NETWORKLESS
    origins: dict[str, None] = {}
    if with_network:
        origins |= dict.fromkeys(one for part in found.parts if reaches_network(part) for one in _addresses(part))
        origins |= {"web:*": None} if found.problems else {}
    outside = (one for part in found.parts for one in _files(part, workspace.root))
    return [short(one) for one in (origins | dict.fromkeys(outside))][:MOST]


def _addresses(part: CommandPart) -> Iterator[str]:
    """The hosts that a part names, or else the program."""
    hosts = [urlsplit(word).hostname for word in part.words if "://" in word and UNKNOWN not in word]
    named = [f"web:{host}" for host in hosts if host]
    yield from named or [f"web:{part.program}"]


def _files(part: CommandPart, root: Path) -> Iterator[str]:
    """The files outside the folder that a part reads or names."""
    for one in (*part.words, *part.reads):
        path = one.partition("=")[2] if one.startswith("-") else one
        if "://" in path or not path or UNKNOWN in path or is_inside(path):
            continue
        there = os.path.normpath(os.path.join(root, os.path.expanduser(path)))
        if there != str(root) and not there.startswith(f"{root}{os.sep}"):
            yield f"file:{there}"
