"""The questions of an audit: every answer equals the truth about a long history, on each database."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from perdure.domain.effect import AttemptOutcome
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError, NotFound
from perdure.evaluation.audit.history import AuditHistory, write_history
from perdure.ids import digest, encode
from perdure.store.audit import answers
from perdure.store.audit.answers import AuditRange
from perdure.store.audit.question import AuditRow
from perdure.store.audit.questions import QUESTIONS
from perdure.store.move import StoreTransaction
from perdure.store.moves import effect, event, session
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.moves.session import NewSession
from perdure.store.store import Store
from tests.store.support.sessions import a_holder

# For each kind of truth: the question, its parameters, and the columns that the truth is about.
SAME: dict[str, tuple[str, dict[str, str | None], str]] = {
    "failed-runs": ("failed-runs", {}, "session tool"),
    "waiting": ("waiting", {}, "session waits_for"),
    "doubts": ("doubts", {}, "session effect doubt"),
    "verdicts": ("verdicts", {}, "session effect verdict by"),
    "repeated": ("repeated", {}, "session effect attempt"),
    "refused": ("refused", {}, "session effect"),
    "exemptions": ("exemptions", {}, "exemption rule granted_by used"),
    "access": ("access", {}, "session identity action"),
}


@pytest.fixture
def history(store: Store) -> AuditHistory:
    return write_history(store, events=4_000, recent=2_000)


def ask(store: Store, name: str, span: AuditRange, **parameters: str | None) -> list[AuditRow]:
    return store.read_now(lambda tx: list(answers.answer(tx, name, parameters, span)))


def read_pages(
    tx: StoreTransaction, name: str, given: dict[str, str | None], span: AuditRange, size: int = 7
) -> list[AuditRow]:
    rows: list[AuditRow] = []
    after: tuple[Any, ...] | None = None
    while page := answers.page(tx, name, given, span, after=after, limit=size):
        rows, after = rows + page, page[-1].key
    return rows


def fork(store: Store, of: SessionRecord, id: str) -> SessionRecord:
    made = NewSession(id=id, program="agent", arguments={}, forked_from=of.uid, forked_at=of.cursor, branch=id)
    return store.write_now(session.create(made, by="ada"))


def cells(rows: list[AuditRow], columns: str) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in columns.split()) for row in rows}


def test_answers_equal_the_truth_about_their_time(store: Store, history: AuditHistory) -> None:
    span = AuditRange(history.since, history.until)
    for kind, (name, parameters, columns) in SAME.items():
        found, truth = cells(ask(store, name, span, **parameters), columns), history.truth[kind]
        wide = len(columns.split())
        assert found == {row[:wide] for row in truth}, kind
        assert truth, kind


def test_incidents_are_failures_doubts_and_what_was_done(store: Store, history: AuditHistory) -> None:
    rows = ask(store, "incidents", AuditRange(history.since, history.until))
    wrong = {(row["session"], row["effect"], row["what"].removeprefix("effect.")) for row in rows if row["effect"]}
    assert {row for row in wrong if row[2] != "settled"} == history.truth["incidents"]
    assert {row["session"] for row in rows if row["what"] == "session.retried"} == {
        id for _, id in history.truth["retries"]
    }


def test_approvals_name_each_voter_and_the_open_ones(store: Store, history: AuditHistory) -> None:
    rows = ask(store, "approvals", AuditRange(history.since, history.until))
    found = {(row["session"], row["effect"], row["decision"], row["voter"] or "") for row in rows}
    assert found == history.truth["approvals"]
    assert all(row["identity"] and row["because"] for row in rows if row["voter"])


def test_retries_and_costs_are_sums_over_their_time(store: Store, history: AuditHistory) -> None:
    span = AuditRange(history.since, history.until)
    retried = Counter(place for place, _ in history.truth["retries"])
    assert {row["repository"]: row["retries"] for row in ask(store, "retries", span) if row["retries"]} == retried
    assert sum(row["repeats"] for row in ask(store, "retries", span)) == len(history.truth["repeated"])
    spent: Counter[tuple[str, str]] = Counter()
    for _, owner, model, _, cost in history.truth["costs"]:
        spent[(owner, model)] += cost
    found: Counter[tuple[str, str]] = Counter()
    for row in ask(store, "costs", span):
        found[(row["owner"], row["model"])] += row["cost_micros"]
    assert found == spent


def test_targets_find_file_edits_and_branches(store: Store, history: AuditHistory) -> None:
    span = AuditRange(history.since, history.until)
    for name in ("path:deploy/*", "path:src/module-3*", "path:deploy/app-0.yaml", "branch:main"):
        prefix, exact = name.removesuffix("*"), "*" not in name
        truth = {row for row in history.truth["targets"] if row[2] == name or (not exact and row[2].startswith(prefix))}
        assert cells(ask(store, "targets", span, target=name), "session effect target") == truth != set(), name
        ever = cells(ask(store, "targets", AuditRange(), target=name), "session effect target")
        assert ever >= truth, name
    assert len(ask(store, "targets", AuditRange(), target="branch:main")) > len(
        ask(store, "targets", span, target="branch:main")
    )


def test_who_approved_covers_the_edits_of_a_session(store: Store, history: AuditHistory) -> None:
    session_id, approved, _, voter = next(iter(r for r in history.truth["approvals"] if r[2] == "approved"))
    rows = ask(store, "who-approved", AuditRange(), session=session_id)
    assert [(row["tool"], row["voter"]) for row in rows] == [("git_push", voter), ("edit_file", None)]
    assert [row["voter"] for row in ask(store, "who-approved", AuditRange(), effect=approved)] == [voter]
    path = rows[1]["targets"][0]
    assert rows[1]["effect"] in {row["effect"] for row in ask(store, "who-approved", AuditRange(), target=path)}
    lifted = next(iter(history.truth["exemptions"]))[0]
    used = [row for row in ask(store, "who-approved", AuditRange(), target="host:*") if row["exemption"] == lifted]
    assert [row["granted_by"] for row in used] == ["hopper"]


def test_who_approved_finds_the_edits_of_a_commit(store: Store) -> None:
    holder, first, second = a_holder(store), "a" * 40, "b" * 40
    tools = ("write_file", "git_commit", "edit_file", "run_command", "git_commit", "edit_file")
    for number, tool in enumerate(tools):
        new = NewEffect(
            id=f"e-{number}", position=f'["{number}"]', generation=0, tool=tool, replay="idempotent", targets="[]",
            intent="{}", intent_digest=digest(str(number)), idempotency_key=digest(f"k{number}"), reach="workspace",
        )  # fmt: skip
        store.write_now(effect.plan_and_dispatch(holder, new, Dispatch(worker="w", process="{}")))
        made = {1: first, 4: second}.get(number)
        done = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="null", reference=made)
        store.write_now(effect.settle(holder.uid, "w", new.id, 1, done))
    for commit, wanted in ((first, ["e-0", "e-1"]), ("bbbbbbbb", ["e-2", "e-3", "e-4"]), ("c" * 40, [])):
        assert [row["effect"] for row in ask(store, "who-approved", AuditRange(), commit=commit)] == wanted
    for wrong in ("HEAD", "abc"):
        with pytest.raises(ConfigError, match="not a commit"):
            ask(store, "who-approved", AuditRange(), commit=wrong)
    with pytest.raises(ConfigError, match="one of commit, session"):
        ask(store, "who-approved", AuditRange(), commit=first, session="s-1")


def test_controls_count_what_they_caught(store: Store, history: AuditHistory) -> None:
    found = {row["control"]: row for row in ask(store, "controls", AuditRange(history.since, history.until))}
    decided = Counter(row[2] for row in history.truth["approvals"])
    assert found["push"]["approved"] == decided["approved"] > 0
    assert found["push"]["waiting"] == decided["waiting"] > 0
    assert found["no-deploy"]["lifted"] == len(history.truth["exemptions"])
    assert found["shipped"]["refused"] == len(history.truth["refused"])


def test_pages_are_the_answer_without_gaps(store: Store, history: AuditHistory) -> None:
    given: dict[str, dict[str, str | None]] = {
        "targets": {"target": "path:*"}, "who-approved": {"target": "path:*"}, "inherited": {"session": "audit-2"},
    }  # fmt: skip
    for name, span in itertools.product(QUESTIONS, (AuditRange(), AuditRange(history.since, history.until))):
        parameters, whole = given.get(name, {}), ask(store, name, span, **given.get(name, {}))
        assert store.read_now(read_pages, name, parameters, span) == whole
        assert len({row.key for row in whole}) == len(whole), name
        assert whole or name in ("removals", "inherited"), name


def test_inherited_names_effects_of_the_lineage(store: Store, history: AuditHistory) -> None:
    assert history.sessions
    parent = store.read_now(session.find, "audit-2")
    last = store.read_now(lambda tx: next(iter(effect.listing(tx, uid=parent.uid, limit=1))))
    later = fork(store, fork(store, parent, "branch"), "later")
    rows = ask(store, "inherited", AuditRange(), session=later.id)
    assert (rows[-1]["effect"], rows[-1]["how"], rows[-1]["from"], rows[-1]["was"]) == (
        last.id,
        "fork",
        "audit-2",
        "settled",
    )
    [resumed] = ask(store, "inherited", AuditRange(), session="audit-4")
    assert (resumed["how"], resumed["tool"], resumed["why"]) == ("resume", "post_comment", "the probe found nothing")


def test_an_erased_reason_is_empty_and_the_row_stays(store: Store, history: AuditHistory) -> None:
    id, told, _, _ = next(iter(history.truth["verdicts"]))
    found = store.read_now(session.find, id)
    lines = store.read_now(
        lambda tx: [one for one in event.after(tx, found.uid, 0, limit=500) if one.kind == "effect.settled"]
    )
    store.write_now(event.erase(found.uid, by="ada", numbers=[one.number for one in lines], because="asked for"))
    rows = ask(store, "verdicts", AuditRange(history.since, history.until))
    assert [(row["verdict"], row["because"]) for row in rows if row["effect"] == told] == [(None, None)]
    erased = ask(store, "removals", AuditRange(history.until))
    assert [(row["session"], row["what"], row["because"]) for row in erased] == [(id, "event.erased", "asked for")]


def test_unknown_questions_and_parameters_are_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="no question"):
        ask(store, "nonsense", AuditRange())
    with pytest.raises(ConfigError, match="no parameter 'nonsense'"):
        ask(store, "doubts", AuditRange(), nonsense="x")
    with pytest.raises(ConfigError, match="asked about something"):
        ask(store, "targets", AuditRange())


def test_every_question_declares_what_it_returns() -> None:
    for question in QUESTIONS.values():
        names = [column.name for column in question.columns]
        assert len(set(names)) == len(names), question.name
        assert all(plan.indexes and plan.statement.startswith("audit.") for plan in question.plans)
        assert encode(question.to_dict())
    statements = [plan.statement for question in QUESTIONS.values() for plan in question.plans]
    assert all(statements.count(one) == 1 for one in statements)
    assert list(itertools.chain(QUESTIONS)) == [one.name for one in QUESTIONS.values()]
