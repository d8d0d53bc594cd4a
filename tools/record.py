"""Record the output of real commands in pages: the demo in README.md, and a session in docs/how-to/newcomer.md.

Run `python -m tools.record` after you change that output; tests fail if you forget it. All commands run in a temporary
folder. The session uses a scripted model, so that it can be recorded on any machine.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from perdure.cli.demo.fixtures import FILES, calls, clean_environment, edit, make_repository

ROOT = Path(__file__).parents[1]
README, NEWCOMER = ROOT / "README.md", ROOT / "docs" / "how-to" / "newcomer.md"
PERDURE = str(Path(sys.executable).with_name("perdure"))
NAMES = [
    (r"\b[eadmw]-[0-9a-z]{10,16}\b", "…"), (r"kill -9 \d+", "kill -9 …"), (r'"[0-9a-f]{12}"', '"…"'),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "…"), (r"\b(\d+[smh] ?)+\b", "…"), (r"\b[0-9a-f]{7,40}\b", "…"),
    (r"sandbox \(\w+\)", "sandbox (…)"), (r"Ran 1 test in \S+", "Ran 1 test"), (r"/\S*/(worktrees|shop)\S*", "…"),
    (r"\b[\w-]+:\d{2,}", "…"), (r"[ \n]+", " "),
]  # fmt: skip
SLOW = (
    FILES["test_cart.py"]
    .replace("import unittest", "import time\nimport unittest")
    .replace("        self", "        time.sleep(1)  # a slow test\n        self")
)
TEST = ("run_command", {"command": "python3 -B test_cart.py"})
SCRIPT = [
    calls(("read_file", {"path": "cart.py"}), TEST),
    calls(edit("max(prices)", "sum(prices)"), TEST),
    "`total` took the largest price instead of adding them up. It adds them up now, and the test passes.",
    calls(edit("sum(prices)", "sum(prices, start=0)"), TEST),
    "It begins at 0 now, in so many words. The test still passes.",
]


def without_names(said: str) -> str:
    """The output without what differs between runs: ids, processes, times, and line breaks."""
    for pattern, name in NAMES:
        said = re.sub(pattern, name, said)
    return said.strip()


def block(page: str, name: str) -> str:
    """The recorded output of this name in a page."""
    found = re.search(rf"^<!-- recorded: {name} -->\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return "" if found is None else found[1]


def replaced(page: str, name: str, said: str) -> str:
    head, tail = page.split(f"<!-- recorded: {name} -->\n", 1)
    kind, _, rest = tail.partition("\n")
    return f"{head}<!-- recorded: {name} -->\n{kind}\n{said}{rest[rest.index('```') :] if block(page, name) else rest}"


def environment(folder: Path) -> dict[str, str]:
    """An environment without a user's settings, with a separate store."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return clean_environment() | {"COLUMNS": "80", "PATH": path, "XDG_DATA_HOME": str(folder / "data")}


def demo() -> str:
    """The output of the demo, up to the commands that it suggests at the end."""
    with tempfile.TemporaryDirectory(prefix="perdure-record-") as folder:
        ended = subprocess.run(
            [PERDURE, "demo"], cwd=folder, env=environment(Path(folder)), stdout=subprocess.PIPE, text=True, check=True
        )
    return ended.stdout.split("\nInspect the result")[0].rstrip() + "\n"


def agent_repository(folder: Path, test: str, script: Sequence[object]) -> tuple[Path, dict[str, str]]:
    """A repository with a failing test, and an environment in which agents have a scripted model."""
    shop, model = make_repository(folder), folder / "model.json"
    (shop / "test_cart.py").write_text(test, encoding="utf-8")
    subprocess.run(["git", "commit", "-qam", "A slow test"], cwd=shop, env=clean_environment(), check=True)
    model.write_text(json.dumps(script), encoding="utf-8")
    return shop, environment(folder) | {"PERDURE_MODEL": f"scripted:{model}", "PERDURE_BY": "ada"}


def session(page: str) -> str:
    """The page, with its console blocks replaced by the current output of their commands, run in order."""
    with tempfile.TemporaryDirectory(prefix="perdure-record-") as name:
        shop, told = agent_repository(Path(name), SLOW, SCRIPT)

        def typed(found: re.Match[str]) -> str:
            lines = [_type(line, shop, told, kill="\nKilled\n" in found[1]) for line in _commands(found[1])]
            return "```console\n" + "\n".join(lines) + "```"

        return re.sub(r"^```console\n(.*?)^```$", typed, page, flags=re.MULTILINE | re.DOTALL)


def _commands(recorded: str) -> Iterator[str]:
    yield from re.findall(r"^\$ (.*)$", recorded, re.MULTILINE)


def _type(line: str, shop: Path, told: dict[str, str], *, kill: bool) -> str:
    """Run one command and return its output. With `kill`, kill it while a command of its agent is running."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {line}"], cwd=shop, env=told, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if kill:
        _wait(lambda: any((shop.parent / "data" / "perdure").glob("perdure.db.d/commands/*/*/started")))
        process.send_signal(signal.SIGKILL)
        _wait(lambda: not _processes_in(shop))  # the agent's command outlives it; wait for its end
    said = process.communicate(timeout=60)[0]
    if process.returncode not in (0, 1, 3, -signal.SIGKILL):
        raise SystemExit(f"{line} ended with {process.returncode}:\n{said}")
    said = re.sub(r"@[\w.-]+:\d+", "@laptop:4711", said.replace(str(shop.parent), "/home/ada")).rstrip()
    return "\n".join([f"$ {line}", *([said] if said else []), *(["Killed"] if process.returncode < 0 else [])]) + "\n"


def _wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not until():
        if time.monotonic() > end:
            raise SystemExit("The expected state was not reached within a minute.")
        time.sleep(0.02)


def _processes_in(folder: Path) -> list[str]:
    """The processes whose working folder is in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            found += [path.parent.name] if Path(os.readlink(path)).is_relative_to(folder) else []
        except OSError:  # it has just ended
            continue
    return found


def main() -> None:
    README.write_text(replaced(README.read_text(encoding="utf-8"), "demo", demo()), encoding="utf-8")
    NEWCOMER.write_text(session(NEWCOMER.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
