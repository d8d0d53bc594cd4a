"""Files and folders of branches: what a snapshot does not contain, and which folder was kept."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from perdure.agent.files.worktree import FolderRemoval
from perdure.cli.text.plain import safe

MAY_DIFFER = "is not in the snapshot: it may be missing there, or differ"


def missing_file_lines(not_kept: list[str], what: str = MAY_DIFFER) -> Iterator[str]:
    """Files that a snapshot does not contain, and what that means."""
    yield from (f"  {safe(one)} {what}" for one in not_kept)


def kept_folder_lines(one: FolderRemoval) -> Iterator[str]:
    """For a folder that was not removed: where it is, why it was kept, and how to remove it."""
    if one.kept is not None:
        command = ["git", "worktree", "remove", "--force", one.folder] if one.is_git else ["rm", "-r", one.folder]
        yield f"The folder of {safe(one.branch)} is kept, {safe(one.folder)}: {safe(one.kept)}."
        yield f"`{safe(shlex.join(command))}` removes it anyway."
