"""The reports of runs and model calls, made from what the runtime has at hand."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from perdure.runtime.telemetry.hook import Kind, Span, span

if TYPE_CHECKING:
    from perdure.runtime.definitions.program import Program
    from perdure.runtime.run.run import Run


def run_span(run: Run, program: Program[..., Any] | None) -> AbstractContextManager[Span]:
    """One run of a session under one lease. The program is None if it is not loaded here."""
    session, holder = run.session, run.holder
    is_agent = program is not None and program.reads_messages
    by_kind = {"agent" if is_agent else "program": session.program}
    return span(
        Kind.RUN, session.uid, session.program, session=session.id, queue=session.queue, epoch=holder.epoch,
        worker=run.runtime.worker.id, parent=session.parent_uid, **by_kind,
    )  # fmt: skip


def chat_span(uid: str, model: str, attempt: int) -> AbstractContextManager[Span]:
    """One request to a model."""
    provider, _, name = model.partition(":")
    return span(Kind.CHAT, uid, name or provider, provider=provider, model=name or provider, attempt=attempt)
