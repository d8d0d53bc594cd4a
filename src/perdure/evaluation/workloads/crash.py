"""Crash: what is left at an independent sink when processes are killed around effects.

Claim. Perdure doubles no effect, loses none, repeats none without evidence, and asks a person only where the sink
cannot tell. From its durable state after any kill, an effect that may have happened never looks like one that was not
begun.

Method. A process performs three effects at a sink. It is killed from outside around the second one: by the sink before
and after its commit, after its reply, and before a commit that happens later; by a tracer at a sync, a rename or a
send, which is around intent, dispatch, acknowledgment and the writing of the session; and again while it recovers. An
agent, whose model asks for the same effects, is killed around the writing of its checkpoint. The sink fails too: an
error or a cut connection after the commit, and a cut before it lands. The sink can do nothing, honour keys, be asked,
or undo; Perdure's replay rule follows from that. Kills of the database server are separate, and so are kills at
Perdure's own fault points.

Oracle. `verifiers/crash.py` counts in the sink's own synced log. The durable state is read after each kill; trials with
equal states form a class, and the sink shows which worlds there were for it.

Refuted by one doubled, lost or blindly repeated effect of Perdure, one needless question, one session that does not
end, or one silent class. Controls: `blob/result-only` must double and be silent, and each planted mistake must be
caught.
"""

from __future__ import annotations

from pathlib import Path

from perdure.evaluation.crash import plan
from perdure.evaluation.crash.summary import summarise
from perdure.evaluation.crash.trial import run
from perdure.evaluation.report.model import WorkloadReport
from perdure.evaluation.workload import Form, Result, Trial


class CrashWorkload:
    """The first workload of the protocol."""

    name = "crash"
    lanes = 4  # a trial often waits: for requests in flight, or until a peer takes a process for dead

    def trials(self, form: Form, rounds: int = 0) -> list[Trial]:
        return plan.trials(form, rounds)

    def run(self, trial: Trial, folder: Path) -> Result:
        return run(trial, folder)

    def summarise(self, results: list[Result]) -> WorkloadReport:
        return summarise(results)


WORKLOAD = CrashWorkload
