"""Record the animated pictures of the README and the documentation: `python -m tools.pictures`.

Each scenario is typed into a real shell. The model is scripted; everything else is real.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perdure.cli.demo.fixtures import calls, edit
from tools.record import ROOT, TEST, agent_repository
from tools.terminal import Recorder, draw

FOLDER = ROOT / "docs" / "pictures"
SLOW_TEST = """import sys, time
from cart import total

time.sleep(1)  # a slow test
found = total([3, 4])
print(f"total([3, 4]) is {found}, and should be 7")
sys.exit(found != 7)
"""
ESCAPE = "\x1b"
WAIT = (
    "run_command",
    {"command": "for n in 1 2 3 4 5 6 7 8 9; do echo waiting for the service; ./is-up 2>/dev/null || sleep 1; done"},
)
FIX = [
    calls(("read_file", {"path": "cart.py"}), TEST),
    calls(edit("max(prices)", "sum(prices)"), TEST),
    "`total` took the largest price instead of adding them up. It adds them up now, and **the test passes**.",
]


@contextmanager
def shell(script: Sequence[object]) -> Iterator[Recorder]:
    """A shell in a repository with a failing test, and an agent with a scripted model."""
    with tempfile.TemporaryDirectory(prefix="perdure-picture-") as name:
        shop, given = agent_repository(Path(name), SLOW_TEST, script)
        del given["COLUMNS"]
        with Recorder(shop, given) as recorder:
            yield recorder


def kill_and_resume() -> Recorder:
    """An agent is killed while it works; another process continues, and repeats nothing."""
    with shell(FIX) as recorder:
        recorder.type('perdure run "The test fails. Fix it." --id fix --allow run_command\n')
        recorder.until("sum(prices)")
        recorder.hold(1.5)
        recorder.kill("perdure run")
        recorder.until("Killed")
        recorder.hold(1.5)
        recorder.type("perdure resume fix\n")
        recorder.until("3 model calls")
        recorder.hold(3)
    return recorder


def talk() -> Recorder:
    """A person approves with one key, stops a command with Escape, and asks for the cost and the changes."""
    with shell([calls(TEST), calls(edit("max(prices)", "sum(prices)"), WAIT), "Stopped. What now?"]) as recorder:
        recorder.type('perdure run "The test fails. Fix it." --id fix\n')
        recorder.until("y/s/t/n/m >")
        recorder.hold(2.5)
        recorder.type("y")
        recorder.until("waiting for the service", times=2)
        recorder.hold(2)
        recorder.type(ESCAPE)
        recorder.until("ada stopped the work here")
        recorder.hold(2.5)
        recorder.type("/diff\n")
        recorder.until("+    return sum(prices)")
        recorder.hold(3)
    return recorder


SCENARIOS: dict[str, Callable[[], Recorder]] = {"kill-and-resume": kill_and_resume, "talk": talk}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SCENARIOS:
        scenario = SCENARIOS[name]
        (FOLDER / f"{name}.svg").write_text(draw(scenario().frames, scenario.__doc__ or name), encoding="utf-8")


if __name__ == "__main__":
    main()
