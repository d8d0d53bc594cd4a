"""`python -m tests.examples.kill_points FOLDER`: kill the example at each of its kill points, and print the result.

Each process is a fork of this one, which has loaded the example and opened no store. A line of the output describes one
kill point: how the killed process ended, how the next one ended, and how many comments the service then has.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

from examples import one_comment
from perdure import faults
from perdure.testing import Sink


def live(store: Path, url: str, fatal: int = 0) -> int:
    """Run one process, killed at its kill point number `fatal`; return its exit code."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    moments = count(1)
    faults.arm(lambda _: os.kill(os.getpid(), signal.SIGKILL) if next(moments) == fatal else None)
    os.environ["COMMENTS_URL"] = url
    code = 1
    try:
        one_comment.main(str(store))
        code = 0
    finally:
        os._exit(code)


def main(folder: Path, first_fatal: int, step: int) -> None:
    with Sink() as sink:
        for fatal in count(first_fatal, step):
            store, url = folder / f"{fatal}.db", sink.run(str(fatal)).url
            first, second = live(store, url, fatal), live(store, url)
            print("moment", first, second, sum(sink.lasting(str(fatal)).values()), flush=True)
            if first == 0:
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
