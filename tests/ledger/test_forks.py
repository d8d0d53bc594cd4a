"""Fork servers: what a life says before its end is heard, however it ends, and the next one is not disturbed by it."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from perdure.testing.sweep.fork_process import FORKING, WARM, Voice
from perdure.testing.sweep.fork_server import ForkServer, fork_servers


def speak(voice: Voice, *, words: int, end: str) -> int:
    """Say some words; then return, raise, hang, or die."""
    os.environ["LEDGER_FORKS"] = "was here"
    for number in range(words):
        voice.say(word=number)
    if end == "raise":
        raise ValueError("it went wrong")
    if end == "hang":
        threading.Event().wait()
    if end == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def look(_: Voice) -> str | None:
    return os.environ.get("LEDGER_FORKS")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, ForkServer]]:
    with fork_servers(FORKING, WARM, rehearsal=f"{__name__}:_nothing") as (forking, warm):
        yield {FORKING: forking, WARM: warm}


def _nothing() -> None:
    """There is nothing to rehearse here."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "killed", "hung"), [("return", False, False), ("hang", False, True), ("die", True, False)]
)
def test_what_was_said_before_the_end_is_heard(
    servers: dict[str, ForkServer], end: str, killed: bool, hung: bool
) -> None:
    ended = servers[FORKING].run(speak, words=3, end=end, patience=0.3)
    assert ended.told("word") == [0, 1, 2]
    assert (ended.killed, ended.hung) == (killed, hung)


@pytest.mark.parametrize("kind", [FORKING, WARM])
def test_an_error_is_raised_where_a_task_is_called(servers: dict[str, ForkServer], kind: str) -> None:
    with pytest.raises(RuntimeError, match="it went wrong"):
        servers[kind].call(speak, words=1, end="raise")


@pytest.mark.parametrize("kind", [FORKING, WARM])
def test_nothing_is_left_for_the_next_task(servers: dict[str, ForkServer], kind: str) -> None:
    first = servers[kind].call(speak, words=0, end="return")
    assert servers[kind].call(look) is None
    assert (servers[kind].call(speak, words=0, end="return") == first) is (kind == WARM)


@pytest.mark.slow
def test_a_warm_server_that_hung_is_replaced(servers: dict[str, ForkServer]) -> None:
    ended = servers[WARM].run(speak, words=1, end="hang", patience=0.2)
    assert (ended.hung, ended.told("word")) == (True, [0])
    assert servers[WARM].call(look) is None
