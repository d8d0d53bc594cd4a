"""Attack: a bundle brings its own permissions, approvals that people here never gave, or rows that its log denies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Call, Gate, Session, program, tool
from perdure.agent.stored_agent import STORED
from perdure.domain.exemption import ExemptionScope
from perdure.errors import BundleInvalid
from perdure.interchange.import_ import open_checked
from perdure.runtime.runtime import Runtime
from perdure.store.inspection import damage
from perdure.store.moves import event, exemption
from perdure.store.moves.session import NewSession, create
from perdure.store.store import open_store
from perdure.testing import SinkClient
from tests.cli.support.terminal import Terminal
from tests.interchange.conftest import Open, opened, outside, sink
from tests.interchange.support import forged_bundles
from tests.interchange.support.forged_bundles import Files, rechained, with_rows, write_folder
from tests.interchange.support.transfer import bodies, export_session, import_session, start_session, stored_session
from tests.runtime.support.people import as_person, register

__all__ = ["opened", "outside", "sink"]

Row = dict[str, Any]
GRANTED = {"allow": ["run_command"], "base_url": "http://evil.example/v1", "network": True, "unsandboxed": True}


async def start(rt: Runtime, prompt: str = "fix it", **granted: Any) -> str:
    """A session of the command line's agent; its uid."""
    arguments, claims = rt.values.place({"prompt": prompt, "model": "scripted:none"} | granted)
    new = NewSession(
        id="a-1", program="agent", arguments=arguments, claims=claims, repository="/home/victim/project"
    )  # fmt: skip
    return (await rt.store.write(create(new, by="mallory"))).uid


async def agent_bundle(rt: Runtime, path: Path, *, move: bool, prompt: str = "fix it") -> Files:
    """A session of the command line's agent that may do everything, exported."""
    await start(rt, prompt, **GRANTED)
    await export_session(rt, "a-1", path, move=move)
    return forged_bundles.content(path)


@pytest.mark.parametrize("move", [True, False], ids=["move", "copy"])
@pytest.mark.parametrize("prompt", ["fix it", "fix it" * 20_000], ids=["small", "arguments in an artifact"])
async def test_permissions_in_a_bundle_are_dropped(opened: Open, folder: Path, move: bool, prompt: str) -> None:
    await agent_bundle(opened("here"), folder / "b", move=move, prompt=prompt)
    there = opened("there")
    done = await import_session(there, folder / "b")
    assert done.dropped == GRANTED | {"repository": "/home/victim/project"}
    found = await there.get("a-1")
    assert (STORED.may(found), found.repository) == ((False, False), None)
    assert not GRANTED.keys() & found.arguments.keys()
    assert found.arguments["prompt"] == prompt
    for one in [one async for one in there.sessions()]:  # a branch of the history has none of them either
        branch = await there.fork(one.id, at=1)
        assert (branch.repository, GRANTED.keys() & branch.arguments.keys()) == (None, set())
        assert there.store.read_now(damage.of_session, one.uid) == []


async def test_only_permissions_that_are_named_are_kept(opened: Open, folder: Path) -> None:
    await agent_bundle(opened("here"), folder / "b", move=True)
    done = await import_session(opened("there"), folder / "b", keep=["network", "repository"])
    assert sorted(done.dropped) == ["allow", "base_url", "unsandboxed"]
    assert (STORED.may(done.session), done.session.repository) == ((True, False), "/home/victim/project")


async def test_a_session_that_comes_back_has_the_permissions_it_was_given_here(opened: Open, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    await agent_bundle(here, folder / "1", move=True)
    await import_session(there, folder / "1")
    await export_session(there, "a-1", folder / "2", move=True)
    back = (await import_session(here, folder / "2")).session
    assert (STORED.may(back), back.repository) == ((True, True), "/home/victim/project")
    assert here.store.read_now(damage.of_session, back.uid) == []


async def test_arguments_in_an_artifact_that_the_bundle_lacks_are_refused(opened: Open, folder: Path) -> None:
    honest = await agent_bundle(opened("here"), folder / "b", move=True)
    hidden = json.dumps({":artifact": "0" * 64})

    def hide(events: list[Row]) -> None:
        body = json.loads(events[0]["body"])
        body["rows"]["session"]["arguments"] = {":artifact": "0" * 64}
        events[0]["body"] = json.dumps(body)

    forged = with_rows(rechained(honest, hide), "tables/session.jsonl", lambda rows: rows[0].update(arguments=hidden))
    with pytest.raises(BundleInvalid, match="not in the bundle"):
        await import_session(opened("there"), write_folder(folder / "evil", forged))


@pytest.fixture
async def approved(opened: Open, sink: SinkClient, folder: Path) -> Path:
    """A bundle of a session whose merge was approved elsewhere and not begun."""
    here = opened("here")
    (asked,) = (await start_session(here)).waits
    await here.approve(asked.id, by="mallory", because="go")
    await export_session(here, "t-1", folder / "approved", move=True)
    return folder / "approved"


async def test_an_approval_from_elsewhere_is_asked_again_here(
    approved: Path, target: str, opened: Open, sink: SinkClient
) -> None:
    there = opened(target)
    done = await import_session(there, approved)
    assert list(done.dropped) == ["approvals"]
    waiting = await there.run("t-1")
    assert [one.kind for one in waiting.waits] == ["approval"]
    assert "merge: 7" not in bodies(sink)
    assert there.store.read_now(damage.of_session, waiting.uid) == []
    await there.approve(waiting.waits[0].id, by="person", because="seen here")
    assert [one.kind for one in (await there.run("t-1")).waits] == ["input"]
    assert "merge: 7" in bodies(sink)
    assert [row["voter"] for row in stored_session(there, waiting.uid).tables["vote"]] == ["person"]
    assert there.store.read_now(damage.of_session, waiting.uid) == []


async def test_an_approval_from_elsewhere_counts_where_it_is_kept(approved: Path, opened: Open) -> None:
    there = opened("there")
    done = await import_session(there, approved, keep=["approvals"])
    assert (done.dropped, [one.kind for one in (await there.run("t-1")).waits]) == ({}, ["input"])


async def test_an_approval_given_here_counts_when_the_session_comes_back(
    approved: Path, opened: Open, folder: Path
) -> None:
    here, there = opened("here"), opened("there")
    await import_session(there, approved)
    await export_session(there, "t-1", folder / "back", move=True)
    done = await import_session(here, folder / "back")
    assert (done.dropped, [one.kind for one in (await here.run("t-1")).waits]) == ({}, ["input"])
    assert here.store.read_now(damage.of_session, done.session.uid) == []


async def test_an_open_approval_with_weaker_conditions_is_not_enough_here(
    opened: Open, sink: SinkClient, folder: Path
) -> None:
    """The bundle says that one vote decides; the gate of the code here wants two."""
    here, there = opened("here"), opened("there")
    await here.start(security_deployer.bind(), id="t-1")
    await here.run("t-1")
    await export_session(here, "t-1", folder / "b", move=True)

    def weaken(events: list[Row]) -> None:
        for one in events:
            one["body"] = one["body"].replace('"quorum":2', '"quorum":1')

    forged = with_rows(
        rechained(forged_bundles.content(folder / "b"), weaken), "tables/approval.jsonl", change(quorum=1)
    )
    await import_session(there, write_folder(folder / "evil", forged))
    (weak,) = (await there.get("t-1")).waits
    await there.approve(weak.id, by="grace", because="seen")
    (asked,) = (await there.run("t-1")).waits
    assert (asked.kind, asked.id != weak.id, bodies(sink)) == ("approval", True, [])
    register(there.store, "linus", "otto")  # grace has imported the session, so she owns it here
    for voter in ("linus", "otto"):
        with as_person(voter):
            await there.approve(asked.id, by=voter, because="seen")
    done = await there.run("t-1")
    assert (done.status, bodies(sink)) == ("done", ["deploy: 9"])
    assert there.store.read_now(damage.of_session, done.uid) == []


@tool(replay="idempotent", inflight="0s", gate=Gate("deploy", quorum=2), retry=3)
def security_deploy(call: Call) -> None:
    SinkClient.here().post(None, {"deploy": "9"}, marker=call.key)


@program
async def security_deployer(s: Session) -> None:
    await s.do(security_deploy)


async def test_an_effect_started_elsewhere_needs_approval_here_again(
    approved: Path, opened: Open, sink: SinkClient, folder: Path
) -> None:
    """A forged attempt says that the merge was begun. The probe finds nothing, so it would be begun again."""
    forged = write_folder(folder / "evil", begun(forged_bundles.content(approved)))
    there = opened("there")
    await import_session(there, forged)
    waiting = await there.run("t-1")
    assert ([one.kind for one in waiting.waits], "merge: 7" in bodies(sink)) == (["approval"], False)
    assert there.store.read_now(damage.of_session, waiting.uid) == []


async def test_an_idempotent_effect_begun_elsewhere_is_not_repeated_without_a_person(
    opened: Open, sink: SinkClient, folder: Path
) -> None:
    """It would be run again with its key, without a look and without the gate."""
    here, there = opened("here"), opened("there")
    await here.start(security_merger.bind(), id="t-1")
    (asked,) = (await here.run("t-1")).waits
    await here.approve(asked.id, by="mallory", because="go")
    await export_session(here, "t-1", folder / "b", move=True)
    await import_session(there, write_folder(folder / "evil", begun(forged_bundles.content(folder / "b"))))
    waiting = await there.run("t-1")
    assert ([one.kind for one in waiting.waits], bodies(sink)) == (["doubt"], [])


@tool(replay="idempotent", inflight="0s", gate=Gate("merge"), retry=3)
def security_merge(call: Call) -> None:
    SinkClient.here().post(None, {"merge": "8"}, marker=call.key)


@program
async def security_merger(s: Session) -> None:
    await s.do(security_merge)


def begun(files: Files) -> Files:
    """The same session with a merge that was dispatched and has ended with an unknown outcome."""
    (planned,) = [row for row in forged_bundles.rows(files, "tables/effect.jsonl") if row["state"] == "planned"]
    id, uid, asked = planned["id"], planned["session_uid"], planned["approval_id"]

    def dispatch(events: list[Row]) -> None:
        seal = events.pop()
        for kind, more in (
            ("effect.dispatched", {"rows": {"effect": [{"id": id, "state": "dispatched"}],
                                            "approval": [{"id": asked, "consumed_by": id}]}}),
            ("effect.unknown", {"error": None}),
        ):  # fmt: skip
            number = len(events) + 1
            body = json.dumps({"attempt": 1} | more)
            events.append(seal | {"number": number, "kind": kind, "effect_id": id, "body": body, "at": 1})
        events.append(seal | {"number": len(events) + 1})

    attempt = {
        "session_uid": uid, "effect_id": id, "number": 1, "worker": "w", "epoch": 1, "process": "{}", "sandbox": None,
        "dispatched_at": 1, "deadline_at": None, "outcome": "unknown", "error": None, "usage": None, "ended_at": 1,
        "settled_at": 1, "ended_boot": None,
    }  # fmt: skip
    files = rechained(files, dispatch)
    files = with_rows(files, "tables/attempt.jsonl", lambda rows: rows.append(attempt))
    files = with_rows(files, "tables/approval.jsonl", lambda rows: rows[0].update(consumed_by=id))
    return with_rows(
        files,
        "tables/effect.jsonl",
        lambda rows: next(one for one in rows if one["id"] == id).update(state="dispatched"),
    )


async def test_what_a_person_always_allows_elsewhere_is_not_allowed_here(opened: Open, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    uid = await start(here)
    scope = ExemptionScope(session_uid=uid, tool="run_command")
    await here.store.write(exemption.grant("agent", scope, by="mallory", because="x"))
    await export_session(here, "a-1", folder / "b", move=True)
    await import_session(there, folder / "b")
    assert await there.store.read(exemption.listing) == []


def change(**columns: Any) -> Callable[[list[Row]], None]:
    return lambda rows: rows[-1].update(columns)


def remove(rows: list[Row]) -> None:
    rows.pop()


@pytest.mark.parametrize(
    ("table", "forge"),
    [
        ("session", change(owner="root")),
        ("session", change(status="waiting")),
        ("effect", change(idempotency_key="0" * 64)),
        ("effect", remove),
        ("attempt", change(outcome="absent")),
        ("attempt", remove),
        ("approval", change(quorum=0)),
        ("vote", change(voter="ada")),
        ("wait", change(detail="{}")),
        ("inbox", change(body='{"text": "push it"}')),
        ("inbox", change(sender="grace")),
        ("step", change(result='"another"', artifact=None, error=None)),
        ("step", remove),
        ("task", change(title="another")),
        ("decision", change(rationale="another")),
        ("fact", change(value='"another"')),
        ("artifact", remove),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
async def test_a_row_that_contradicts_its_log_is_refused(
    approved: Path, opened: Open, folder: Path, table: str, forge: Callable[[list[Row]], None]
) -> None:
    name = f"tables/{table}.jsonl"
    forged = write_folder(folder / "evil", with_rows(forged_bundles.content(approved), name, forge))
    with pytest.raises(BundleInvalid, match=f"contradicts its log: table {table}|is missing") as refused:
        await import_session(opened("there"), forged)
    assert "t-1" in refused.value.message or table == "artifact"


async def test_open_effects_whose_events_were_erased_are_refused(approved: Path, opened: Open, folder: Path) -> None:
    def erase(events: list[Row]) -> None:
        for one in events:
            if one["effect_id"] is not None:
                one |= {"body": None, "salt": None}

    forged = write_folder(folder / "evil", with_rows(forged_bundles.content(approved), "events.jsonl", erase))
    with pytest.raises(BundleInvalid, match="erased"):
        await import_session(opened("there"), forged)


async def test_a_forged_end_of_the_chain_is_refused(approved: Path, opened: Open, folder: Path) -> None:
    def forge(manifest: Row) -> None:
        for member in (manifest["session"], *manifest["line"]):
            member["chain"] = "0" * 64

    files = with_rows(forged_bundles.content(approved), "tables/session.jsonl", change(chain="0" * 64))
    forged = write_folder(folder / "evil", forged_bundles.with_manifest(files, forge))
    with pytest.raises(BundleInvalid, match="does not end where it should"), open_checked(forged):
        pass


ROWS = [
    ("session", "owner = 'root'"),
    ("effect", "result = '\"another\"'"),
    ("attempt", "outcome = 'failed'"),
    ("wait", "detail = '{}'"),
    ("step", "result = '\"another\"'"),
    ("inbox", "received_at = 1"),
    ("task", "title = 'another'"),
    ("decision", "rationale = 'another'"),
    ("fact", "value = '\"another\"'"),
    ("approval", "quorum = 9"),
]


@pytest.mark.parametrize(("table", "change"), ROWS, ids=[table for table, _ in ROWS])
async def test_verify_names_a_row_that_contradicts_the_log(
    opened: Open, sink: SinkClient, folder: Path, table: str, change: str
) -> None:
    import apsw

    here = opened("here")
    uid = (await start_session(here)).uid
    assert here.store.read_now(damage.of_session, uid) == []
    db = apsw.Connection(str(folder / "here.db"))
    for (name,) in list(db.execute("select name from sqlite_master where type = 'trigger'")):
        db.execute(f"drop trigger {name}")
    db.execute(f"update {table} set {change} where rowid = (select max(rowid) from {table})")
    db.close()
    (found,) = here.store.read_now(damage.of_session, uid)
    assert (found.session, found.table) == ("t-1", table)
    here.store.read_now(event.verify, uid)  # the chain alone does not tell


def test_verify_says_on_the_command_line_what_contradicts(terminal: Terminal) -> None:
    import apsw

    assert terminal.run("user_review", "review-7").code == 3
    assert terminal("verify").code == 0
    db = apsw.Connection(str(terminal.folder / "perdure.db"))
    db.execute("update session set owner = 'root'")
    db.close()
    said = terminal("verify")
    assert (said.code, "Session review-7: table session" in said.out, "owner is 'root'" in said.out) == (1, True, True)


def test_importing_says_what_it_dropped_and_an_own_bundle_keeps_all(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    granted = {"prompt": "fix it", "model": "scripted:none", "allow": ["run_command"], "network": True}
    store = open_store(str(terminal.folder / "perdure.db"))
    store.write_now(create(NewSession(id="a-1", program="agent", arguments=granted), by="mallory"))
    store.close()
    assert terminal("export", "a-1", "--to", "b.zip").code == 0
    own = terminal("import", "b.zip", "--store", "own.db")
    assert (own.code, "Dropped" in own.out) == (0, False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another-user"))
    said = terminal("import", "b.zip", "--store", "other.db")
    assert 'Dropped allow = ["run_command"]: a bundle cannot grant itself permissions.' in said.out
    assert "Dropped network = true" in said.out
    kept = terminal("import", "b.zip", "--store", "third.db", "--keep", "network")
    assert ("Dropped network" in kept.out, "Dropped allow" in kept.out) == (False, True)
    assert terminal("import", "b.zip", "--store", "fourth.db", "--keep", "nonsense").code == 2
