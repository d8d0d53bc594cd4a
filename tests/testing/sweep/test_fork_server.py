"""Fork servers: messages that a process sent arrive however it ends, and the next process is not affected."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from perdure.testing.sweep.fork_process import FORKING, WARM, Channel
from perdure.testing.sweep.fork_server import ForkServer, fork_servers


def send_numbers(channel: Channel, *, numbers: int, end: str) -> int:
    """Send some numbers; then return, raise, hang, or die."""
    os.environ["FORK_SERVER_TEST"] = "was here"
    for number in range(numbers):
        channel.send(number=number)
    if end == "raise":
        raise ValueError("it went wrong")
    if end == "hang":
        threading.Event().wait()
    if end == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def read_environment(_: Channel) -> str | None:
    return os.environ.get("FORK_SERVER_TEST")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, ForkServer]]:
    with fork_servers(FORKING, WARM, rehearsal=f"{__name__}:_no_rehearsal") as (forking, warm):
        yield {FORKING: forking, WARM: warm}


def _no_rehearsal() -> None:
    """Nothing needs to be rehearsed here."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "killed", "hung"), [("return", False, False), ("hang", False, True), ("die", True, False)]
)
def test_messages_arrive_however_the_process_ends(
    servers: dict[str, ForkServer], end: str, killed: bool, hung: bool
) -> None:
    ended = servers[FORKING].run(send_numbers, numbers=3, end=end, timeout=0.3)
    assert ended.values("number") == [0, 1, 2]
    assert (ended.killed, ended.hung) == (killed, hung)


@pytest.mark.parametrize("kind", [FORKING, WARM])
def test_an_error_is_raised_in_the_caller(servers: dict[str, ForkServer], kind: str) -> None:
    with pytest.raises(RuntimeError, match="it went wrong"):
        servers[kind].call(send_numbers, numbers=1, end="raise")


@pytest.mark.parametrize("kind", [FORKING, WARM])
def test_a_task_leaves_nothing_to_the_next_one(servers: dict[str, ForkServer], kind: str) -> None:
    first = servers[kind].call(send_numbers, numbers=0, end="return")
    assert servers[kind].call(read_environment) is None
    assert (servers[kind].call(send_numbers, numbers=0, end="return") == first) is (kind == WARM)


@pytest.mark.slow
def test_a_warm_server_that_hung_is_replaced(servers: dict[str, ForkServer]) -> None:
    ended = servers[WARM].run(send_numbers, numbers=1, end="hang", timeout=0.2)
    assert (ended.hung, ended.values("number")) == (True, [0])
    assert servers[WARM].call(read_environment) is None
