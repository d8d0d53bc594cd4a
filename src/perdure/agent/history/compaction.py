"""Compaction: when the window is too long, a summary replaces its beginning.

It is one commit: the summary is added to the transcript and names the line at which the window now begins. What a
summary must not lose is not left to the model: settled effects, decisions, open tasks and standing orders come from the
record. If the model cannot make a valid summary, nothing changes until the window is one and a half times as long as it
may be; then it is cut without the model's summary. The whole history stays on record.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.agent import inference
from perdure.agent.history import context
from perdure.agent.history.transcript import Line, State
from perdure.agent.ledger import AgentLedger
from perdure.agent.model import Reply, Request, Turn
from perdure.agent.tools.plan import plan_text
from perdure.domain.decision import Decision
from perdure.domain.effect import Effect, Replay
from perdure.domain.task import Task
from perdure.errors import ModelError
from perdure.ids import encode
from perdure.store.move import StoreTransaction
from perdure.store.moves import decision, event, fact, task
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions

KEPT = 0.3  # the part of the budget that is kept as it is
LAST_RESORT = 1.5
LONGEST = 8_000  # characters of the model's summary
MOST, PAGE, PAGES = 40, 500, 10
INSTRUCTIONS = """\
You are summarizing the record of your own work so that you can continue it. State what the person wants, what you found
out, what you did and what is left to do, with the names of the files and functions that matter. State nothing that is
not in the record. Use at most 600 words."""


async def compact(ledger: AgentLedger, state: State, *, refused: bool = False) -> Line | None:
    """Shorten the window if it is too long, or if the model refused it; returns the summary's line, if there is one."""
    settings, size = ledger.settings, context.tokens(state.lines)
    budget = min(size // 2, settings.context) if refused else settings.context
    cut = _cut(state.lines, round(budget * KEPT)) if size > budget else 0
    if cut == 0:
        return None
    first, run = state.lines[cut], ledger.run
    call = inference.ModelCall(["compact", first.uid, first.number])
    facts = await run.read(kept_facts, run.session.uid)
    try:
        request = _request(state, cut, settings.context)
        reply = _checked(await inference.ask(ledger, settings.model, request, call))
    except ModelError as error:
        await run.write(event.append(run.holder, "note", {"compaction": "failed", "why": error.message}))
        if size <= budget * LAST_RESORT:
            return None
        before = str((state.summary or {}).get("content") or "")[:LONGEST]
        text = f"(No summary could be made; what is on record follows.)\n{before}"
        reply = Reply(text=text, model=settings.model.name)
    body = {
        "role": "summary", "content": f"{reply.text}\n\n{text_of(facts)}", "first": [first.uid, first.number],
        "facts": facts, "usage": msgspec.to_builtins(reply.usage),
    }  # fmt: skip
    return await inference.record(ledger, settings.model, reply, call, body)


def _cut(lines: list[Line], keep: int) -> int:
    """Where the window may begin: at a message of a person or of the model, never between a call and its result."""
    kept, cut = 0, 0
    for nth in range(len(lines) - 1, 0, -1):
        kept += context.tokens([lines[nth]])
        if lines[nth].role in ("user", "assistant") and nth > 0:
            cut = nth
            if kept >= keep:
                break
    return cut


def _request(state: State, cut: int, most: int) -> Request:
    old = State(lines=state.lines[:cut], summary=state.summary)
    asked = Turn("user", "Summarize the record above as instructed.")
    return Request(INSTRUCTIONS, (*context.turns(old, most), asked), number=state.replies)


def _checked(reply: Reply) -> Reply:
    """The reply, if it is a usable summary; otherwise raises `ModelError`."""
    if not reply.text.strip():
        raise ModelError("The summary is empty.", retry=False)
    if reply.calls or reply.stop == "length" or len(reply.text) > LONGEST:
        raise ModelError("The summary is too long, unfinished, or calls tools.", retry=False)
    return reply


def kept_facts(tx: StoreTransaction, uid: str) -> dict[str, Any]:
    """What a summary must contain, from the record of the session and, before a fork, of the session it came from."""
    done: list[Effect] = []
    decisions: list[Decision] = []
    tasks: list[Task] = []
    session, until, through = sessions.get(tx, uid), 2**62, 2**62
    while True:
        done += [one for one in _done(tx, session.uid) if one.number <= through]
        decisions += [one for one in decision.recent(tx, session.uid, limit=MOST) if one.decided_at <= until]
        known = {one.id for one in tasks}
        tasks += [one for one in task.of_session(tx, session.uid) if one.created_at <= until and one.id not in known]
        if session.forked_from is None or session.forked_at is None:
            break
        through = session.forked_at
        session = sessions.get(tx, session.forked_from)
        until = event.after(tx, session.uid, through - 1, limit=1)[0].at
    return {
        "effects": [_effect(one) for one in reversed(done[:MOST])],
        "decisions": [
            {"decision": one.decision, "because": one.rationale, "outcome": one.outcome}
            for one in reversed(decisions[:MOST])
        ],
        "tasks": plan_text([one for one in tasks if one.state in task.UNFINISHED]),
        "orders": {one.key: one.value for one in fact.orders(tx, session.repository)},
    }


def _done(tx: StoreTransaction, uid: str) -> list[Effect]:
    """The newest effects that changed something outside."""
    found: list[Effect] = []
    page = effects.listing(tx, uid=uid, limit=PAGE)
    for _ in range(PAGES):
        found += [one for one in page if one.replay not in (Replay.PURE, Replay.JOINT)]
        if len(found) >= MOST or len(page) < PAGE:
            break
        page = effects.listing(tx, uid=uid, limit=PAGE, before=page[-1])
    return found[:MOST]


def _effect(effect: Effect) -> dict[str, Any]:
    asked = encode(effect.intent)
    short = asked if len(asked) <= 160 else asked[:160] + "…"
    return {"id": effect.id, "tool": effect.tool, "state": effect.state, "reference": effect.reference, "asked": short}


def text_of(facts: dict[str, Any]) -> str:
    """The facts as text for the model."""
    lines = [f"- {one['state']}: {one['tool']} {one['asked']} [{one['id']}]" for one in facts["effects"]]
    lines += [
        f"- decided: {one['decision']}, because {one['because']} (outcome: {one['outcome'] or 'open'})"
        for one in facts["decisions"]
    ]
    lines += [f"- standing order {key}: {value}" for key, value in facts["orders"].items()]
    return "\n".join(["On record:", *lines, "Open tasks:", facts["tasks"]])
