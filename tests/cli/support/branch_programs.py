"""More of the user's code: pushes that need their branch, bookings that can be taken back, and very long notes."""

from pathlib import Path

from perdure import Call, EffectCompensated, Session, program, tool
from tests.cli.support.programs import die_if_armed


@tool(leases=("branch:{branch}",))
def branch_push(folder: str, branch: str) -> str:
    die_if_armed(folder)
    return f"pushed {branch}"


@tool(replay="idempotent")
def branch_book(call: Call, folder: str, note: str) -> str:
    Path(folder, "booked").touch()
    return "booked"


@branch_book.undo
def _(call: Call, result: str | None, folder: str, note: str) -> None:
    Path(folder, "booked").unlink(missing_ok=True)


@program
async def branch_pushes(s: Session, folder: str, branch: str = "main") -> str:
    return await s.do(branch_push, folder=folder, branch=branch)


@program
async def branch_books(s: Session, folder: str, length: int = 10) -> str:
    try:
        await s.do(branch_book, folder=folder, note="x" * length)
    except EffectCompensated:
        return "never mind"
    return str(await s.ask("Keep it?"))
