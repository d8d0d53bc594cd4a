"""Heads of an audit: what was kept elsewhere finds every change that the store itself no longer shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import apsw
import msgspec
import pytest

from perdure.control.audit import head as heads
from perdure.control.audit.head_check import HeadReport, compare
from perdure.domain import event as events
from perdure.domain.session import SessionRecord
from perdure.errors import BundleInvalid, ConfigError
from perdure.evaluation.audit.history import write_history
from perdure.ids import encode, salt
from perdure.interchange.signature import SigningKey
from perdure.store.moves import event, session, session_removal
from perdure.store.store import Store

Tamper = Callable[[str], None]
DATABASES = pytest.mark.databases("sqlite", "postgres")

LOG = "event where session_uid = '{uid}'"
RENUMBER = "update event set number = {} where session_uid = '{{uid}}' and number = {}"
CUT = f"update session set cursor = 60, chain = (select chain from {LOG} and number = 60) where uid = '{{uid}}'"
CHANGES = [
    (f"delete from {LOG} and number > 60; {CUT}", "truncated"),
    (f"delete from {LOG} and number = 60", "gap"),
    (f"delete from {LOG} and number = (select cursor from session where uid = '{{uid}}')", "truncated"),
    ("update event set actor = 'mallory' where session_uid = '{uid}' and number = 7", "edited"),
    ("update event set body = '{{}}' where session_uid = '{uid}' and number = 7", "edited"),
    ("update event set body = null, salt = null where session_uid = '{uid}' and number = 7", "erased"),
    ("; ".join(RENUMBER.format(*pair) for pair in ((1000, 7), (7, 8), (8, 1000))), "reordered"),
    (f"delete from {LOG}; delete from session where uid = '{{uid}}'", "deleted"),
    ("update session set cursor = 2000 where uid = '{uid}'", "edited"),
    ("update session set cursor = 60 where uid = '{uid}'", "edited"),
]


@pytest.fixture
def tamper(store: Store, target: str) -> Iterator[Tamper]:
    """Change rows as one who owns the database can: without triggers and references."""
    if target.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(target, autocommit=True) as server:
            server.execute("set session_replication_role = replica")
            yield lambda sql: [server.execute(one) for one in sql.split(";")].clear()
        return
    with closing(apsw.Connection(target)) as db:
        for (name,) in list(db.execute("select name from sqlite_master where type = 'trigger'")):
            db.execute(f"drop trigger {name}")
        yield lambda sql: list(db.execute(sql)).clear()


def kept(store: Store, folder: Path, key: SigningKey | None = None) -> heads.AuditHead:
    """A head that went to a file and came back."""
    made = store.read_now(heads.take, key, "ada")
    (folder / "head").write_bytes(made.file())
    store.write_now(heads.record(made, by="ada"))
    return heads.read(folder / "head")


def check(store: Store, head: heads.AuditHead) -> HeadReport:
    return store.read_now(compare, head)


def problems(store: Store, head: heads.AuditHead) -> list[tuple[str, str]]:
    return [(one.session, one.problem) for one in check(store, head).findings]


def named(store: Store, id: str) -> SessionRecord:
    return store.read_now(session.find, id)


@DATABASES
def test_a_store_that_only_grows_still_matches(store: Store, tamper: Tamper, folder: Path) -> None:
    write_history(store, events=1_000)
    head = kept(store, folder)
    store.write_now(session.create(session.NewSession(id="later", program="agent", arguments={}), by="ada"))
    done = named(store, "audit-0")
    store.write_now(event.erase(done.uid, by="ada", numbers=[2, 3], because="asked for"))
    store.write_now(session_removal.remove(named(store, "audit-1").uid, by="ada", because="old"))
    found = check(store, head)
    assert (found.findings, found.sessions, found.later) == ([], head.sessions, 1)
    assert head.control[0] > 0
    assert tamper is not None


@DATABASES
def test_each_kind_of_tampering_is_found_and_named(store: Store, tamper: Tamper, folder: Path) -> None:
    write_history(store, events=1_500, recent=1_000)
    head, expected = kept(store, folder), {}
    for place, (change, problem) in enumerate(CHANGES):
        one = named(store, f"audit-{place}")
        tamper(change.format(uid=one.uid))
        expected[one.uid if problem == "deleted" else one.id] = problem
    assert dict(problems(store, head)) == expected


@DATABASES
def test_an_empty_line_of_an_erasure_excuses_nothing(store: Store, tamper: Tamper, folder: Path) -> None:
    write_history(store, events=1_000)
    one = named(store, "audit-0")
    store.write_now(event.erase(one.uid, by="ada", numbers=[2], because="asked for"))
    said = named(store, "audit-0").cursor
    assert store.write_now(event.erase(one.uid, by="ada", numbers=[said], because="to hide it")) == 0
    head = kept(store, folder)
    tamper(f"update event set body = null, salt = null where session_uid = '{one.uid}' and number in (7, {said})")
    assert problems(store, head) == [("audit-0", "erased")]


@DATABASES
def test_a_log_that_was_rewritten_with_its_chain_is_found(store: Store, tamper: Tamper, folder: Path) -> None:
    write_history(store, events=1_000)
    head, one = kept(store, folder), named(store, "audit-9")
    rows = store.read_now(lambda tx: tx.all("event.after", uid=one.uid, after=0, limit=1000))
    chain = events.genesis(one.uid)
    for uid, number, kind, actor, at, effect_id, move_id, body, grain, digest, _ in rows:
        if number == 7:
            body, grain = encode({"role": "assistant", "content": "nothing happened"}), salt()
            digest = events.body_digest(grain, body)
            said = f"body = '{body}', salt = '{grain}', digest = '{digest}'"
            tamper(f"update event set {said} where session_uid = '{uid}' and number = 7")
        chain = events.link(chain, number, kind, actor, at, effect_id, move_id, digest)
        tamper(f"update event set chain = '{chain}' where session_uid = '{uid}' and number = {number}")
    tamper(f"update session set chain = '{chain}' where uid = '{one.uid}'")
    assert store.read_now(event.verify, one.uid).chain == chain, "the store itself does not show it"
    assert problems(store, head) == [("audit-9", "rewritten")]


@DATABASES
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("delete from control_event where number >= 3", "truncated"),
        ("delete from control_event where number = 2", "gap"),
        ("update control_event set actor = 'mallory' where number = 2", "edited"),
        ("update control_event set body = '{}' where number = 2", "edited"),
    ],
)
def test_changes_of_the_control_log_are_found(
    store: Store, tamper: Tamper, folder: Path, change: str, problem: str
) -> None:
    for _ in range(3):
        kept(store, folder)
    head = kept(store, folder)  # it has the lines of those before
    assert head.control[0] >= 3
    tamper(change)
    assert problems(store, head) == [("control log", problem)]


@pytest.mark.databases("memory")
def test_a_head_that_was_changed_is_refused(store: Store, folder: Path) -> None:
    write_history(store, events=1_000)
    key = SigningKey()
    head = kept(store, folder, key)
    assert head.signature is not None
    assert check(store, head).signer.key == key.public
    file = folder / "head"
    whole = file.read_bytes()
    for changed in (
        whole.replace(b',100,"', b',101,"'),
        whole[:200],
        whole.replace(b'"taken_at":1', b'"taken_at":2'),
        b"",
        b"{}\n{}\n",
    ):
        file.write_bytes(changed)
        with pytest.raises(BundleInvalid):
            heads.read(file)
    lines = whole.splitlines()
    content = b"\n".join([*lines[:-2], b""])
    end = json.loads(lines[-1])
    forged = heads.HeadEnd(sha256(content).hexdigest(), head.signature)
    file.write_bytes(content + msgspec.json.encode(forged) + b"\n")
    with pytest.raises(BundleInvalid, match="signature of the head is wrong"):
        heads.read(file)
    assert end["root"] == head.root
    with pytest.raises(ConfigError, match="cannot be read"):
        heads.read(folder / "none")


@pytest.mark.databases("memory")
def test_a_head_of_another_store_is_refused(store: Store) -> None:
    head = heads.AuditHead(store="other", taken_at=1, control=(0, ""), sessions=0, root="")
    with pytest.raises(ConfigError, match="of another store"):
        check(store, head)
