"""A process of the workload `audit`: it writes a history, or asks every question of one.

`python -m perdure.evaluation.audit.audit_process JOB` prints a JSON line for each answer.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from perdure.durable import write_whole
from perdure.evaluation.audit.blob_archive import BlobArchive, write_archive
from perdure.evaluation.audit.facts import PARAMETERS, QUESTIONS, Fact, facts_of
from perdure.evaluation.audit.history import AuditHistory, write_history
from perdure.evaluation.audit.touched import StatementRecorder, Touched, touched
from perdure.runtime.runtime import open as open_runtime
from perdure.store.audit import answers
from perdure.store.audit.answers import AuditRange

RECENT = 2_000  # events of the time that is asked about, whatever the length of the history
DROPS = "drops-a-row"  # the planted mistake: each answer lacks one of its rows


class AuditJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to do: `build` writes a history of so many events, otherwise it asks."""

    system: str
    address: str
    truth: str
    events: int
    build: bool = False

    @property
    def is_blob(self) -> bool:
        return self.system.startswith("blob/")

    @property
    def configuration(self) -> str:
        return self.system.split("/")[2]


class AuditAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `answers.jsonl`. `facts` is null where the system has nothing to answer with."""

    question: str
    facts: list[Fact] | None
    seconds: float
    rows: int
    bytes: int


class TruthFile(msgspec.Struct, frozen=True):
    """What the generator of a history wrote about the time that is asked about."""

    since: int
    until: int
    events: int
    truth: dict[str, list[Fact]]


async def build(job: AuditJob) -> None:
    """Write a history, and the truth beside it. The archive of blobs is written from a store with the same history."""
    place = Path(job.address).with_suffix(".db") if job.is_blob else job.address
    async with open_runtime(str(place)) as runtime:
        made = await asyncio.to_thread(write_history, runtime.store, events=job.events, recent=RECENT)
        if job.is_blob:
            os.mkdir(job.address)
            await write_archive(runtime, Path(job.address))
    if job.address.startswith("postgresql:"):
        _vacuum(job.address)
    if isinstance(place, Path):
        for path in place.parent.glob(f"{place.name}*"):
            path.unlink() if path.is_file() else None
    write_whole(Path(job.truth), msgspec.json.encode(_truth(made)))


def _vacuum(address: str) -> None:
    """What the server does by itself some time after so many rows were written."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as server:
        server.execute("vacuum (analyze)")


def _truth(made: AuditHistory) -> TruthFile:
    facts = {name: sorted(map(list, rows)) for name, rows in made.truth.items()}
    return TruthFile(made.since, made.until, made.events, facts)


async def ask_store(job: AuditJob, question: str, span: AuditRange) -> AuditAnswer:
    """Ask Perdure, through its public interface, on a store that was just opened."""
    given: dict[str, Any] = PARAMETERS.get(question, {})
    async with open_runtime(job.address, connections=2) as runtime:
        began = time.perf_counter()
        rows = [row async for row in runtime.audit(question, since=span.since, until=span.until, **given)]
        seconds = time.perf_counter() - began
        recorder = await runtime.store.read(lambda tx: _recorded(tx, question, given, span))
    facts = facts_of(question, [row.to_dict() for row in rows])
    if job.configuration == DROPS:
        facts = facts[1:]
    found = touched(job.address, recorder.statements)
    return AuditAnswer(question=question, facts=facts, seconds=seconds, rows=found.rows, bytes=found.bytes)


async def ask_files(job: AuditJob, span: AuditRange) -> AsyncIterator[AuditAnswer]:
    """Ask a store of text files. It reads all its logs when it is opened: timed once, counted for each question."""
    async with open_runtime("memory:"):
        """Loads the code, so that the opening does not pay for it."""
    logs, began = _logs(job.address), time.perf_counter()
    async with open_runtime(job.address) as runtime:
        opening = time.perf_counter() - began
        for question in (QUESTIONS[0], *QUESTIONS):
            given: dict[str, Any] = PARAMETERS.get(question, {})
            began = time.perf_counter()
            rows = [row async for row in runtime.audit(question, since=span.since, until=span.until, **given)]
            seconds = opening + time.perf_counter() - began
            facts = facts_of(question, [row.to_dict() for row in rows])
            yield AuditAnswer(question=question, facts=facts, seconds=seconds, rows=logs.rows, bytes=logs.bytes)


def _logs(address: str) -> Touched:
    """The lines and the bytes of a store of text files."""
    found = [path.read_bytes() for path in Path(address.removeprefix("files:")).rglob("*.jsonl")]
    return Touched(rows=sum(one.count(b"\n") for one in found), bytes=sum(map(len, found)))


def _recorded(tx: Any, question: str, given: dict[str, Any], span: AuditRange) -> StatementRecorder:
    recorder = StatementRecorder(tx)
    list(answers.answer(recorder, question, given, span))  # type: ignore[arg-type]
    return recorder


def ask_blobs(job: AuditJob, question: str, span: AuditRange) -> AuditAnswer:
    """Ask the archive."""
    archive = BlobArchive(Path(job.address), results_only=job.configuration == "result-only")
    before, began = _read_so_far(), time.perf_counter()
    facts = archive.answer(question, span.since, span.until)
    seconds = time.perf_counter() - began
    found = Touched(archive.events, _read_so_far() - before)
    return AuditAnswer(question=question, facts=facts, seconds=seconds, rows=found.rows, bytes=found.bytes)


def _read_so_far() -> int:
    """The bytes that this process has read from files."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(fields["rchar"])


async def ask(job: AuditJob, span: AuditRange) -> None:
    """Ask every question once; the first is asked twice, so that it does not pay for the code that is loaded."""
    if job.address.startswith("files:"):
        async for said in ask_files(job, span):
            os.write(1, msgspec.json.encode(said) + b"\n")
        return
    for question in (QUESTIONS[0], *QUESTIONS):
        said = ask_blobs(job, question, span) if job.is_blob else await ask_store(job, question, span)
        os.write(1, msgspec.json.encode(said) + b"\n")


def main() -> None:
    job = msgspec.json.decode(sys.argv[1], type=AuditJob)
    if job.build:
        asyncio.run(build(job))
        return
    about = msgspec.json.decode(Path(job.truth).read_bytes(), type=TruthFile)
    asyncio.run(ask(job, AuditRange(about.since, about.until)))


if __name__ == "__main__":
    main()
