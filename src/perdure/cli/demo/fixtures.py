"""What the demo needs: a small repository with a failing test, and the script of the model."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from perdure.errors import ConfigError
from perdure.ids import digest, encode

PULL_REQUEST = 7
SUBJECT = "Add up the prices"
PROMPT = "The test fails. Fix it, commit, comment on pull request 7, push."
REQUEST = "Prices may be fractions. Try fsum."
THANKS = "Thank you."
BECAUSE = "The test passes, and the change is small."
TEST = "python3 -B test_cart.py"
DECISION = ("add up the prices", "max() returns only the highest price")
FILES = {
    ".gitignore": "__pycache__/\n",
    "cart.py": 'def total(prices):\n    """What a cart costs."""\n    return max(prices)\n',
    "test_cart.py": """\
import unittest

from cart import total


class Total(unittest.TestCase):
    def test_every_price_counts(self):
        self.assertEqual(total([3, 4]), 7)


unittest.main()
""",
}
Turn = dict[str, Any] | str


def calls(*named: tuple[str, dict[str, Any]]) -> Turn:
    """A turn in which the model calls tools."""
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in named]}


def tasks(*states: str) -> tuple[str, dict[str, Any]]:
    titles = ("find the bug", "fix it", "report it")
    return "plan", {"tasks": [{"title": title, "state": state} for title, state in zip(titles, states, strict=True)]}


def edit(old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": "cart.py", "old": old, "new": new}


CHECK = ("run_command", {"command": TEST})
OUTCOME = ("decided", {"id": "d-" + digest(encode(list(DECISION)))[:12], "outcome": "the test passes"})
COMMENT = {"pr": PULL_REQUEST, "body": "total() returned only the highest price. Fixed."}
BEGINNING: list[Turn] = [
    calls(tasks("active", "open", "open"), CHECK, ("read_file", {"path": "cart.py"})),
    calls(("decide", {"decision": DECISION[0], "because": DECISION[1], "then": "edit cart.py"})),
]
SCRIPT: list[Turn] = [
    *BEGINNING,
    calls(edit("max(prices)", "sum(prices)"), CHECK),
    calls(OUTCOME, ("git_commit", {"message": SUBJECT})),
    calls(("post_comment", COMMENT)),
    calls(("git_push", {})),
    calls(tasks("done", "done", "done")),
    "Fixed, committed, commented and pushed.",
    "You are welcome.",
]
WITH_FSUM = "from math import fsum\n\n\n" + FILES["cart.py"].strip().replace("max", "fsum")
ANOTHER: list[Turn] = [
    *BEGINNING,
    calls(edit(FILES["cart.py"].strip(), WITH_FSUM), CHECK),
    "fsum works too.",
]


def make_repository(folder: Path) -> Path:
    """A repository with a failing test, and the remote that it is pushed to."""
    if shutil.which("git") is None:
        raise ConfigError("The demo needs git.", hint="Install git.")
    work = folder / "shop"
    work.mkdir()
    for name, content in FILES.items():
        (work / name).write_text(content, encoding="utf-8")
    for where, *words in (
        (work, "init", "-q", "-b", "main"), (work, "config", "user.name", "The demo"),
        (work, "config", "user.email", "demo@perdure.invalid"), (work, "config", "commit.gpgsign", "false"),
        (work, "add", "-A"), (work, "commit", "-q", "-m", "A cart"),
        (folder, "init", "-q", "--bare", "-b", "main", "remote.git"),
        (work, "remote", "add", "origin", "../remote.git"),
        (work, "push", "-q", "-u", "origin", "main"),
    ):  # fmt: skip
        git(where, *words)
    return work


def git(where: Path, *words: str) -> str:
    """The output of git, with only the settings of the repository."""
    ended = subprocess.run(
        ["git", *words], cwd=where, env=clean_environment(), check=False, capture_output=True, text=True
    )
    if ended.returncode:
        raise ConfigError(f"git {words[0]} exited with {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout.strip()


def clean_environment() -> dict[str, str]:
    """The environment of this process, without variables that change git or Perdure."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PERDURE_", "GIT_", "COMMENTS_"))}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def write_script(folder: Path, turns: list[Turn]) -> None:
    """The replies of the model from now on."""
    (folder / "model.json").write_bytes(msgspec.json.format(msgspec.json.encode(turns)))


def examples() -> list[Path]:
    """The programs that the demo runs: the examples, in a working copy or as installed."""
    package = Path(__file__).parents[2]
    installed = package / "examples"
    folder = installed if installed.exists() else package.parents[1] / "examples"
    return [folder / "one_comment.py", folder / "fix_a_test.py"]
