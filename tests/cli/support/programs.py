"""The user's code that the command-line tests run: programs, and tools whose outside world is a folder."""

import os
import signal
import time
from pathlib import Path

from perdure import Call, Gate, Outcome, Session, program, tool


def die_if_armed(folder: str) -> None:
    """Be killed here, once, if there is a file called `die`."""
    armed = Path(folder, "die")
    if armed.exists():
        armed.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


@tool(replay="probe", inflight="100ms")
def user_post(call: Call, folder: str, body: str) -> dict[str, str]:
    with Path(folder, "posted").open("a") as file:
        file.write(call.key + "\n")
    die_if_armed(folder)
    return {"id": call.key[:6]}


@user_post.probe
def _(call: Call, folder: str, body: str) -> Outcome:
    posted = Path(folder, "posted")
    if posted.exists() and call.key in posted.read_text():
        return Outcome.happened({"id": call.key[:6]}, reference=call.key)
    return Outcome.absent()


@tool
def user_deploy(folder: str, to: str) -> str:
    die_if_armed(folder)
    return f"deployed to {to}"


@tool(gate=Gate("merge"))
def user_merge(pr: int) -> None: ...


@tool(inflight="100ms")
def user_lost_reply() -> None:
    """Fail without proof, so that the outcome is in doubt."""
    raise RuntimeError("the reply was lost")


@tool
def user_hold(folder: str) -> str:
    """Stay in the middle of an attempt while the file `held` exists."""
    Path(folder, "held").touch()
    while Path(folder, "held").exists():
        time.sleep(0.01)
    return "let go"


@program
async def user_review(s: Session, folder: str, pr: int = 7) -> str:
    plan = await s.task("read the diff", id="read")
    notes = await s.step("read", lambda: "only \x1b[31mstyle\x1b[0m")
    await plan.become("done")
    choice = await s.decide("comment, do not block", because="only style", then="user_post")
    receipt = await s.do(user_post, folder=folder, body=notes)
    await choice.settle("commented")
    await s.remember("seen", pr, scope="user", stale_after="1ms", verify="look at the pr")
    answer = await s.ask("Merge now?", choices=["yes", "no"])
    if answer == "yes":
        await s.do(user_merge, pr=pr)
    return f"{len(receipt['id'])} {answer}"


@program
async def user_release(s: Session, folder: str, to: str = "prod") -> str:
    return await s.do(user_deploy, folder=folder, to=to)


@program
async def user_held(s: Session, folder: str) -> str:
    return await s.do(user_hold, folder=folder)


@program
async def user_amount(s: Session) -> str:
    return str(await s.ask("How much?", choices=["5", "-5", "two words"]))


@program
async def user_gated(s: Session) -> None:
    await s.do(user_merge, pr=7)


@program
async def user_gated_twice(s: Session) -> None:
    await s.gather(s.do(user_merge, pr=1), s.do(user_merge, pr=2))


@program
async def user_unknown(s: Session) -> None:
    await s.do(user_lost_reply)


@program
async def user_talk(s: Session) -> str:
    return f"hello {await s.ask('Name?')}"


@program
async def user_orders(s: Session) -> str:
    order = await s.receive(dict[str, int])
    return f"{order} {await s.approve('Ship')}"


@program
async def user_parent(s: Session) -> str:
    return await s.child(user_talk.bind(), id="kid")


@program
async def user_sleeper(s: Session) -> list[int]:
    await s.sleep(seconds=0.05)
    return [1, 2]


@program
async def user_naps(s: Session, seconds: float = 36_000.0) -> str:
    await s.sleep(seconds=seconds)
    return "rested"


@program
async def user_values(s: Session, number: int, text: str = "x", many: list[int] | None = None) -> list[object]:
    return [number, text, many]


@program
async def user_fails(s: Session) -> None:
    raise ValueError("no \x1b[31msuch\x1b[0m thing")


def kill_if_deadly(folder: str) -> str:
    if Path(folder, "deadly").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@program
async def user_kills(s: Session, folder: str) -> str:
    return await s.step("kill", kill_if_deadly, folder)
