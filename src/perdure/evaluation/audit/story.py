"""One session of a history for audits: what happens in it, and what is then true about it.

The number of a session decides its story; the rest of its events are lines of a transcript. What a person must do is
done in old sessions, and left open in some recent ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from perdure.clock import SECOND
from perdure.domain.approval import ApprovalDecision
from perdure.domain.effect import AttemptOutcome, Verdict
from perdure.domain.exemption import ExemptionScope
from perdure.domain.lease import Holder
from perdure.domain.session import Status
from perdure.ids import digest
from perdure.store.move import Log, Move, StoreTransaction, enter, hold
from perdure.store.moves import access, approval, doubt, effect, exemption, lease, message, session, vote, wait
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.moves.session import NewSession
from perdure.store.moves.session_retry import fail, retry

EVENTS = 100  # of each session
DAY = 24 * 3600 * SECOND
TTL = 60 * SECOND
OWNERS, REPOSITORIES = ("ada", "grace", "edsger"), ("github.com/org/shop", "github.com/org/site")
MODELS = ("anthropic:large", "openai:small")
APPROVER, OPERATOR, READER = "hopper", "turing", "lovelace"
FAILED = AttemptResult(outcome=AttemptOutcome.FAILED, error='{"code":"not-done","message":"refused by the server"}')
LOST = AttemptResult(outcome=AttemptOutcome.UNKNOWN, error='{"code":"timeout","message":"no answer"}')
ABSENT = AttemptResult(outcome=AttemptOutcome.ABSENT)


class Story:
    """One session of a history, and what it adds to the truth."""

    def __init__(self, number: int, at: int, is_recent: bool) -> None:
        self.number, self.at, self.is_recent = number, at, is_recent
        self.id = f"audit-{number}"
        self.owner, self.repository = OWNERS[number % 3], REPOSITORIES[number % 2]
        self.facts: list[tuple[str, tuple[Any, ...]]] = []
        self.uid = ""
        self._effects = 0
        self._spare = EVENTS

    def write(self, tx: StoreTransaction) -> None:
        """Write the whole session; every event is a second after the one before."""
        tx.now = self.at
        new = NewSession(
            id=self.id, program="agent", arguments={"prompt": "keep the shop running"}, owner=self.owner,
            repository=self.repository, repository_id=self.repository, title=f"Task {self.number}",
        )  # fmt: skip
        self.uid = session.create(new, by=self.owner).run(tx).uid
        self.log = self._take(tx)
        self._talk(20)
        self._pay(tx)
        self._edit(tx)
        ending = STORIES[self.number % len(STORIES)](self, tx)
        self._talk(EVENTS - self.log.cursor - 1)
        ending(tx)

    def _take(self, tx: StoreTransaction) -> Log:
        """Hold the session; the log is open for its holder."""
        log = enter(tx, self.uid, "worker-1")
        self.holder: Holder = lease.acquire.on(log, nonce=digest(f"{self.uid} {log.cursor}"), ttl=TTL)
        log.close()
        return hold(tx, self.holder)

    def outside(self, tx: StoreTransaction, by: str) -> Log:
        """The log for a person, while the session is held; `again` continues."""
        self.log.close()
        self._tick(tx)
        return enter(tx, self.uid, by)

    def again(self, tx: StoreTransaction, log: Log) -> None:
        log.close()
        self._tick(tx)
        self.log = hold(tx, self.holder)

    def _tick(self, tx: StoreTransaction) -> None:
        tx.now += SECOND

    def _talk(self, lines: int) -> None:
        for place in range(max(lines, 0)):
            self.log.tx.now += SECOND // 10
            self.log.append("message", {"role": "assistant", "content": f"line {place} of {self.id}"})

    def _pay(self, tx: StoreTransaction) -> None:
        model, cost = MODELS[self.number % 2], 1000 + self.number % 7
        message.add_usage.on(self.log, tokens_in=900, tokens_out=100, cost_micros=cost, model=model)
        self.fact("costs", self.id, self.owner, model, tx.now - tx.now % DAY, cost)

    def _edit(self, tx: StoreTransaction) -> None:
        path = f"deploy/app-{self.number % 5}.yaml" if self.number % 4 == 0 else f"src/module-{self.number % 50}.py"
        self.do(tx, "edit_file", {"path": path}, (f"path:{path}",), reach="workspace")

    def fact(self, question: str, *row: Any) -> None:
        self.facts.append((question, row))

    def intent(self, tool: str, arguments: dict[str, Any], targets: tuple[str, ...], reach: str) -> NewEffect:
        """An effect of this session that is not planned yet."""
        self._effects += 1
        name = f"{self.number}-{self._effects}"
        for one in targets:
            self.fact("targets", self.id, f"e-audit-{name}", one)
        return NewEffect(
            id=f"e-audit-{name}", position=json.dumps([0, [], "do", tool, name, 0]), generation=0, tool=tool,
            replay="idempotent", targets=json.dumps(targets), intent=json.dumps(arguments),
            intent_digest=digest(f"{tool} {name}"), idempotency_key=digest(f"{self.uid} {name}"), reach=reach,
            policy_version="0", rule="shipped",
        )  # fmt: skip

    def do(
        self, tx: StoreTransaction, tool: str, arguments: dict[str, Any], targets: tuple[str, ...], *,
        reach: str = "outside", exemptions: tuple[str, ...] = (), outcome: AttemptResult | None = None,
    ) -> str:  # fmt: skip
        """Do an effect; with an `outcome` of None it is acknowledged."""
        intent = self.intent(tool, arguments, targets, reach)
        under = Dispatch(worker="worker-1", process="{}", rule="shipped", exemptions=exemptions)
        effect.plan_and_dispatch.on(self.log, intent, under)
        self._tick(tx)
        self.settle(intent.id, 1, outcome)
        return intent.id

    def settle(self, effect_id: str, number: int, outcome: AttemptResult | None = None) -> None:
        done = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="null", reference=f"ref-{effect_id}")
        effect.settle.on(self.log, effect_id, number, outcome or done)

    def finish(self, tx: StoreTransaction, status: Status = Status.DONE, error: Any = None) -> None:
        """End the session."""
        self._tick(tx)
        session.finish.on(self.log, status, result=None if error else "done", error=error)
        self.log.close()


Ending = Callable[[StoreTransaction], None]


def _plain(story: Story, tx: StoreTransaction) -> Ending:
    story.do(tx, "run_command", {"command": "make test"}, ("command:make",), reach="machine")
    return story.finish


def _fails(story: Story, tx: StoreTransaction) -> Ending:
    """A tool fails, and with it the session."""
    tool = ("call_api", "send_mail")[story.number // 10 % 2]
    failed = story.do(tx, tool, {"n": story.number}, ("host:api.example",), outcome=FAILED)
    story.fact("failed-runs", story.id, tool)
    story.fact("incidents", story.id, failed, "failed")
    return lambda tx: story.finish(tx, Status.FAILED, {"type": "NotDone", "code": "not-done", "message": tool})


def _asks(story: Story, tx: StoreTransaction) -> Ending:
    """A push that a person approves."""
    approved = _request(story)
    log = story.outside(tx, APPROVER)
    vote.cast.on(log, approval.approval_id(approved.id), ApprovalDecision.APPROVED, because="the tests pass")
    story.again(tx, log)
    effect.dispatch.on(story.log, approved.id, Dispatch(worker="worker-1", process="{}", rule="push"))
    story.settle(approved.id, 1)
    story.fact("approvals", story.id, approved.id, "approved", APPROVER)
    return story.finish


def _request(story: Story) -> NewEffect:
    intent = story.intent("git_push", {"branch": "main"}, ("branch:main",), "outside")
    question = ApprovalRequest(gate="push", requester=story.owner, requester_may_decide=True, quorum=1, expires_at=None)
    approval.request.on(story.log, intent, question)
    return intent


def _doubts(story: Story, tx: StoreTransaction) -> Ending:
    """An outcome that is unknown: a person says what happened, or it stays open in some recent sessions."""
    unsure = story.do(tx, "post_comment", {"pr": story.number}, (f"pr:{story.number}",), outcome=LOST)
    why = "the connection was lost"
    opened = doubt.open_doubt.on(story.log, unsure, why)
    story.fact("incidents", story.id, unsure, "doubted")
    if story.is_recent and story.number // 10 % 2:
        story.fact("doubts", story.id, unsure, why)
        story.fact("waiting", story.id, "doubt")
        return lambda tx: _park(story, tx, opened)
    log = story.outside(tx, OPERATOR)
    doubt.record_verdict.on(log, unsure, Verdict.HAPPENED, because="it is there", result="null")
    story.again(tx, log)
    story.fact("verdicts", story.id, unsure, "happened", OPERATOR)
    return story.finish


def _park(story: Story, tx: StoreTransaction, opened: str) -> None:
    story._tick(tx)
    wait.park.on(story.log, [opened])
    story.log.close()


def _repeats(story: Story, tx: StoreTransaction) -> Ending:
    """A first attempt that did not arrive, and a second one."""
    repeated = story.do(tx, "post_comment", {"pr": story.number}, (f"pr:{story.number}",), outcome=ABSENT)
    doubt.record_recovery.on(story.log, repeated, "the probe found nothing")
    effect.dispatch.on(story.log, repeated, Dispatch(worker="worker-2", process="{}", rule="shipped"), because="absent")
    story.settle(repeated, 2)
    story.fact("repeated", story.id, repeated, 2)
    return story.finish


def _refused(story: Story, _: StoreTransaction) -> Ending:
    """A call that the policy denies."""
    intent = story.intent("run_command", {"command": "rm -rf /"}, ("command:rm",), "machine")
    effect.plan.on(story.log, intent)
    effect.refuse.on(story.log, intent.id, "policy-denied", "The rule no-removal denies it.")
    story.fact("refused", story.id, intent.id, "policy-denied")
    return story.finish


def _waits(story: Story, tx: StoreTransaction) -> Ending:
    """A push that is asked for: it waits in recent sessions, and was denied in older ones."""
    intent = _request(story)
    asked = approval.approval_id(intent.id)
    if story.is_recent:
        story.fact("waiting", story.id, "approval")
        story.fact("approvals", story.id, intent.id, "waiting", "")
        return lambda tx: _park(story, tx, asked)
    log = story.outside(tx, APPROVER)
    vote.cast.on(log, asked, ApprovalDecision.DENIED, because="not now")
    story.again(tx, log)
    return story.finish


def _exempts(story: Story, tx: StoreTransaction) -> Ending:
    """A rule is lifted for this session and used once."""
    scope = ExemptionScope(session_uid=story.uid, repository=None, owner=None, tool="deploy", intent_digest=None)
    granted = exemption.grant("no-deploy", scope, by=APPROVER, because="release day", uses=3)
    made = granted.run(_named(tx, granted))
    story.do(tx, "deploy", {"to": "staging"}, ("host:staging",), exemptions=(made.id,))
    story.fact("exemptions", made.id, "no-deploy", APPROVER, 1)
    return story.finish


def _named(tx: StoreTransaction, move: Move[Any]) -> StoreTransaction:
    """The transaction under the id of a move: several grants in one transaction are several moves."""
    tx.move_id = move.id
    return tx


def _retried(story: Story, tx: StoreTransaction) -> Ending:
    """A session that fails, is retried by a person, and succeeds."""
    story._tick(tx)
    fail.on(story.log, {"type": "ModelError", "code": "model-error", "message": "overloaded"})
    log = story.outside(tx, OPERATOR)
    retry.on(log)
    log.close()
    story.log = story._take(tx)
    story.fact("retries", story.repository, story.id)
    return story.finish


def _read(story: Story, tx: StoreTransaction) -> Ending:
    """A session that was exported."""
    access.record(identity=f"os:{READER}", action="export", session_uid=story.uid, detail="copy").run(tx)
    story.fact("access", story.id, f"os:{READER}", "export")
    return story.finish


STORIES = (_plain, _fails, _asks, _doubts, _repeats, _refused, _waits, _exempts, _retried, _read)
