"""Programs for tests of the service. None of them reaches the outside."""

from __future__ import annotations

from perdure import Gate, Session, program, tool


@tool(replay="escalate", gate=Gate("service-gate"))
def service_publish(page: str) -> str:
    return f"published {page}"


@tool(replay="escalate")
def service_vanish(page: str) -> str:
    raise TimeoutError(page)  # the outcome is unknown


@program
async def service_question(s: Session, text: str) -> str:
    return str(await s.ask(text, choices=["yes", "no"]))


@program
async def service_release(s: Session, page: str) -> str:
    return await s.do(service_publish, page=page)


@program
async def service_doubt(s: Session, page: str) -> str:
    return await s.do(service_vanish, page=page)


@program
async def service_inbox(s: Session, label: str) -> str:
    await s.task("answer")
    await s.remember("label", label)
    return str(await s.receive())


@program
async def service_end(s: Session, value: str) -> str:
    await s.decide("end", because="it is a test")
    return value


@program
async def service_failure(s: Session, value: str) -> str:
    raise ValueError(value)


@program
async def service_parent(s: Session, value: str) -> str:
    return await s.child(service_failure.bind(value=value), id=f"{value}-child")


@program
async def service_records(s: Session, page: str) -> str:
    """One row in each list."""
    await s.decide("publish", because="it is a test")
    await s.remember("page", page)
    await s.save(page.encode())
    return await s.do(service_publish, page=page)
