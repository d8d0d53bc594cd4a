"""What became of the program while its sessions waited. One of these is declared in a process, under the same name.

same          nothing changed
compatible    a step and an effect were added after the wait
incompatible  an effect was put before the one that has been done: what is recorded does not fit any more
planted       the answer is read the wrong way round, silently: the control
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.evaluation.interrupt.older_program import declare_original, post, read_notes, wait_for
from perdure.runtime.definitions.program import program
from perdure.runtime.session import Session


def declare_compatible() -> None:
    @program
    async def evaluation_interrupted(s: Session, kind: str, number: int) -> str:
        notes = await s.step("read", read_notes, number)
        before = await s.do(post, number=number, part="before")
        answer = await wait_for(s, kind, number)
        await s.step("check", read_notes, number)
        after = await s.do(post, number=number, part="after") if answer == "yes" else "nothing"
        extra = await s.do(post, number=number, part="extra")
        return f"{notes}, {before}, {answer}, {after}, {extra}"


def declare_incompatible() -> None:
    @program
    async def evaluation_interrupted(s: Session, kind: str, number: int) -> str:
        notes = await s.step("read", read_notes, number)
        start = await s.do(post, number=number, part="start")
        before = await s.do(post, number=number, part="before")
        answer = await wait_for(s, kind, number)
        after = await s.do(post, number=number, part="after") if answer == "yes" else "nothing"
        return f"{notes}, {start}, {before}, {answer}, {after}"


def declare_planted() -> None:
    @program
    async def evaluation_interrupted(s: Session, kind: str, number: int) -> str:
        notes = await s.step("read", read_notes, number)
        before = await s.do(post, number=number, part="before")
        answer = await wait_for(s, kind, number)
        after = await s.do(post, number=number, part="after") if answer != "yes" else "nothing"
        return f"{notes}, {before}, {answer}, {after}"


CHANGES: dict[str, Callable[[], None]] = {
    "same": declare_original,
    "compatible": declare_compatible,
    "incompatible": declare_incompatible,
    "planted": declare_planted,
}
