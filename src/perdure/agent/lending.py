"""What a person's repository lends while a snapshot is made: objects that are there already are not written again.

Borrowing ends before the snapshot is given out. What it names and we do not have is copied, a few objects one by one
and many as one pack, so a commit may be amended away and collected afterwards: no snapshot needs it. Only what differs
from the folder's last snapshot is looked at, because that one is whole.
"""

from __future__ import annotations

import os

from perdure.agent.gitstore import TOGETHER, Area, Held

FEW = 100  # up to so many are kept loose, as git does with what it fetches: a pack each time would be a heap of packs
TREE, NESTED, NOTHING = "040000", "160000", "000000"


def differing(held: Held, area: Area, before: str | None, tree: str) -> tuple[int, list[str]]:
    """How many files differ from one tree to another, and every object that only the second one names."""
    empty = before or held.out("mktree").decode().strip()
    words = ("diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", empty, tree)
    fields = held.out(*words, area=area, borrow=True).split(b"\0")[:-1]
    entries = [about[1:].decode().split(" ") for about in fields[::2]]
    files = sum(TREE not in (old_mode, mode) for old_mode, mode, *_ in entries)
    names = [new for _, mode, _, new, _ in entries if mode not in (NESTED, NOTHING)]
    return files, list(dict.fromkeys([tree, *names]))


def make_own(held: Held, names: list[str]) -> None:
    """Copy those of these objects that we only have because somebody lends them."""
    loose = held.path / "objects"
    maybe = [one for one in names if not os.path.exists(loose / one[:2] / one[2:])]
    if not maybe or held.lender is None:
        return
    said = held.out("cat-file", "--batch-check=%(objectname)", stdin=_lines(maybe)).decode().splitlines()
    lent = [one for one, line in zip(maybe, said, strict=True) if " " in line]
    pack = ("pack-objects", "-q", "--window=0")  # what is packed there stays as it is packed
    if len(lent) > FEW:
        held.out(*pack, str(loose / "pack" / "pack"), stdin=_lines(lent), borrow=True)
    elif lent:
        content = held.out(*pack, "--stdout", stdin=_lines(lent), borrow=True)
        held.out("unpack-objects", "-q", stdin=content, settings=TOGETHER)


def _lines(names: list[str]) -> bytes:
    return "".join(f"{one}\n" for one in names).encode()
