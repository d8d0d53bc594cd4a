"""What `perdure demo` does, apart from telling it: lives of the example, a real service, a real kill, and counts.

Nobody's word is taken: not the program's, which says what it believes, and not the ledger's, which is what is shown.
What is there is counted from the service's own synced log. Whoever kills the demo leaves nothing running: the service
and the program both end when their standard input does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from perdure.cli.app import load
from perdure.cli.sentence import sentence
from perdure.domain.wait import FOR_A_PERSON
from perdure.errors import SessionFailed
from perdure.runtime.recovery import Recovery
from perdure.runtime.runtime import Runtime
from perdure.runtime.runtime import open as open_runtime
from perdure.store import effect

if TYPE_CHECKING:
    from perdure.testing.sink import Sink

T = TypeVar("T")
LIMIT = 60.0  # seconds for one life of the program, which takes less than one
WANTED = 1
ASKED = {"probe": 0, "escalate": 1}  # how many questions to people are right, for each declaration of the tool


class Life(msgspec.Struct):
    """One life of the program: what it said, how it ended, and what the service's log held when it was killed."""

    pid: int
    said: list[str]
    code: int
    kept_at_kill: int | None


class Known(msgspec.Struct):
    """What the store says about a session at one moment."""

    status: str
    effects: list[dict[str, Any]]
    plan: list[Recovery]
    log: list[str]
    cursor: int
    people_asked: int

    @property
    def in_the_window(self) -> bool:
        """Dispatched, and nobody knows what came of it: where the kill should have hit."""
        return [(one["state"], one["attempts"]) for one in self.effects] == [("dispatched", ["unknown"])]


class Counts(msgspec.Struct):
    """What came of it: counted from the service's log, and the questions from the session's."""

    replay: str
    wanted: int
    at_service: int
    duplicated: int
    lost: int
    people_asked: int
    status: str

    @property
    def right(self) -> bool:
        found = (self.at_service, self.duplicated, self.lost, self.people_asked)
        return self.status == "done" and found == (self.wanted, 0, 0, ASKED[self.replay])


class Scene:
    """One session of the example, with a part of the service for itself."""

    def __init__(self, target: str, service: Sink, replay: str, session: str) -> None:
        self._target = target
        self._service = service
        self._replay = replay
        self.session = session

    def live(self, *, kill: bool = False) -> Life:
        """Run the program once. To be killed, it stands still where it is told to, and says so."""
        told = {"COMMENTS_URL": self._service.run(self.session).url, "COMMENTS_REPLAY": self._replay}
        environment = os.environ | told | ({"COMMENTS_STOP": "1"} if kill else {})
        line = [sys.executable, str(script()), self._target, self.session]
        pipe, said, kept = subprocess.PIPE, [], None
        with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
            limit = threading.Timer(LIMIT, process.kill)
            limit.start()
            try:
                for text in process.stdout or ():
                    said.append(text.strip())
                    if kill and text.startswith("stopped: "):
                        kept = self._kept()
                        process.send_signal(signal.SIGKILL)
                errors = process.communicate()[1].strip().splitlines()
            finally:
                limit.cancel()
                process.kill()
        if process.returncode not in ((-signal.SIGKILL,) if kill else (0, 3)):
            raise SessionFailed(f"The program ended with {process.returncode}: {''.join(errors[-1:]) or 'no message'}.")
        return Life(process.pid, said, process.returncode, kept)

    def _kept(self) -> int:
        """How many comments there are, by the service's log."""
        return sum(self._service.lasting(self.session).values())

    def look(self, *, since: int = 0) -> Known:
        """Ask the store, from this process, which runs nothing."""
        return self._ask(lambda runtime: look(runtime, self.session, since))

    def settle(self, doubtful: Known) -> None:
        """Be the person who is asked: look at the service, and say what is there."""
        (found,) = doubtful.effects
        (comment,) = [line["id"] for line in self._service.log(self.session) if line["what"] == "kept"]
        because = "The comment is in the service's log."
        self._ask(lambda runtime: runtime.settle(found["id"], "happened", by="demo", because=because, result=comment))

    def _ask(self, work: Callable[[Runtime], Awaitable[T]]) -> T:
        async def ask() -> T:
            async with open_runtime(self._target, by="demo") as runtime:
                return await work(runtime)

        load([str(script())])
        return asyncio.run(ask())

    def count(self, end: Known) -> Counts:
        kept = self._kept()
        duplicated, lost = max(0, kept - WANTED), max(0, WANTED - kept)
        return Counts(self._replay, WANTED, kept, duplicated, lost, end.people_asked, end.status)


def contrast(scene: Scene) -> Counts:
    """The same kill, with the tool declared so that nothing but a person can tell."""
    scene.live(kill=True)
    scene.live()
    scene.settle(scene.look())
    scene.live()
    return scene.count(scene.look())


async def look(runtime: Runtime, session: str, since: int) -> Known:
    """What the store knows; of its log, the lines about effects after an event."""
    view = await runtime.get(session)
    shown, tools = [], {}
    async for one in runtime.effects(session=session):
        attempts = await runtime.store.read(effect.of_effect, view.uid, one.id)
        outcomes = [attempt.outcome or "unknown" for attempt in attempts]
        shown.append({"id": one.id, "tool": one.tool, "state": one.state, "attempts": outcomes})
        tools[one.id] = one.tool
    events = [one async for one in runtime.events(session)]
    opened = [one.body["rows"]["wait"][0]["kind"] for one in events if one.kind == "wait.opened"]
    return Known(
        status=view.status,
        effects=shown,
        plan=await runtime.recovery_plan(session),
        log=[f"{one.number:>3}  {sentence(one, tools)}" for one in events if one.effect_id and one.number > since],
        cursor=view.cursor,
        people_asked=sum(kind in FOR_A_PERSON for kind in opened),
    )


def script() -> Path:
    """The program that is killed: an example to read, in a working copy or as it was installed."""
    package = Path(__file__).parents[1]
    installed = package / "examples" / "one_comment.py"
    return installed if installed.exists() else package.parents[1] / "examples" / "one_comment.py"
