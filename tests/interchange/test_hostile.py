"""A bundle with any defect is refused with a clear error, and nothing of it is stored."""

from __future__ import annotations

import json
import os
import stat
import warnings
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.agent.files.branch_merge import bring_home
from perdure.agent.files.rewind.folder_rewind import rewind_folder
from perdure.errors import BundleInvalid, ConfigError, IllegalMove, NotFound, PerdureError
from perdure.interchange import export
from perdure.interchange.distrust import check_retries, refuse_open_folder_changes
from perdure.interchange.unpack import BundleLimits
from perdure.runtime.runtime import Runtime
from perdure.store.transfer.session_export import StoredSession
from perdure.testing import SinkClient
from tests.interchange.conftest import Open
from tests.interchange.support import forged_bundles
from tests.interchange.support.forged_bundles import Files, rechained, with_manifest, with_rows, write_folder, zipped
from tests.interchange.support.transfer import export_session, import_session, start_session

EVENTS, SESSION, EFFECT = "events.jsonl", "tables/session.jsonl", "tables/effect.jsonl"
Row = dict[str, Any]


@pytest.fixture
async def bundle(opened: Open, sink: SinkClient, folder: Path) -> Files:
    """An honest bundle of a session that moves."""
    here = opened("source")
    await start_session(here)
    await export_session(here, "t-1", folder / "honest", move=True)
    return forged_bundles.content(folder / "honest")


@pytest.fixture
async def there(opened: Open, folder: Path) -> AsyncIterator[Runtime]:
    """A store that must stay empty."""
    rt = opened("target")
    yield rt
    assert [one async for one in rt.sessions()] == []
    assert not (folder / "evil").exists()


async def refused(there: Runtime, path: Path, message: str, **options: Any) -> None:
    with pytest.raises(BundleInvalid) as error:
        await import_session(there, path, **options)
    assert message in error.value.message, error.value.message
    assert there.values.directory is not None
    assert list(there.values.directory.names()) == []


def contradict(**columns: Any) -> Callable[[list[Row]], None]:
    """A change that only the database refuses, of an effect that was acknowledged."""

    def change(rows: list[Row]) -> None:
        next(row for row in rows if row["state"] == "acknowledged").update(columns)

    return change


def edit(place: int, **columns: Any) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        rows[place] |= columns

    return change


def drop(rows: list[Row]) -> None:
    del rows[5]


def swap(rows: list[Row]) -> None:
    rows[4], rows[5] = rows[5], rows[4]


def cut(rows: list[Row]) -> None:
    del rows[-1]


def twice(rows: list[Row]) -> None:
    rows.append(rows[-1])


def without(name: str) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        del rows[0][name]

    return change


FORGED: dict[str, tuple[str, Callable[[list[Row]], None], str]] = {
    "a body": (EVENTS, edit(3, body='{"n":1}'), "does not match its digest"),
    "an actor": (EVENTS, edit(3, actor="mallory"), "chain does not continue"),
    "a time": (EVENTS, edit(3, at=1), "chain does not continue"),
    "an event left out": (EVENTS, drop, "has a gap"),
    "events in another order": (EVENTS, swap, "has a gap"),
    "the end cut off": (EVENTS, cut, "does not end where it should"),
    "an event twice": (EVENTS, twice, "repeats another line"),
    "an event of another session": (EVENTS, edit(0, session_uid="f" * 32), "none of its sessions"),
    "a body without its salt": (EVENTS, edit(3, salt=None), "do not belong together"),
    "an effect of another session": (EFFECT, edit(0, session_uid="f" * 32), "none of its sessions"),
    "an unknown state": (EFFECT, edit(0, state="maybe"), "cannot be 'maybe'"),
    "an unknown rule": (EFFECT, edit(0, replay="guess"), "cannot be 'guess'"),
    "a number as text": (EFFECT, edit(0, number="1"), "Expected `int`"),
    "a truth as number": (EFFECT, edit(0, number=True), "Expected `int`"),
    "a number too large": (EFFECT, edit(0, planned_at=2**63), "too large"),
    "a NUL": (EFFECT, edit(0, tool="a\0b"), "contains a NUL"),
    "JSON that is none": (EFFECT, edit(0, intent="{"), "is not a row of it"),
    "JSON not as text": (EFFECT, edit(0, intent={"a": 1}), "not JSON as text"),
    "a column missing": (EFFECT, without("tool"), "missing required field"),
    "a session that runs": (SESSION, edit(0, status="running", waiting_since=None), "cannot be running"),
    "a session that is not sealed": (SESSION, edit(0, sealed_at=None), "was not sealed"),
    "another end": (SESSION, edit(0, cursor=3), "not as the manifest says"),
    "another uid": (SESSION, edit(0, uid="f" * 32), "does not hold the sessions"),
    "a branch of nothing": (SESSION, edit(0, forked_from="f" * 32, forked_at=1), "not a branch of the one before it"),
    "a fact of a shared scope": ("tables/fact.jsonl", edit(0, scope="orders"), "none of its sessions"),
    "an artifact not there": ("tables/artifact.jsonl", edit(0, digest="f" * 64), "is missing, or is not"),
    "an artifact of another size": ("tables/artifact.jsonl", edit(0, size=1), "is missing, or is not"),
    "a vote for nothing": (
        "tables/vote.jsonl",
        lambda rows: rows.append(
            {"session_uid": "", "approval_id": "x", "voter": "m", "decision": "approved", "rationale": "r", "at": 1}
        ),
        "none of its sessions",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", FORGED)
async def test_a_forged_row_is_refused(what: str, bundle: Files, there: Runtime, folder: Path) -> None:
    name, change, message = FORGED[what]
    await refused(there, write_folder(folder / "forged", with_rows(bundle, name, change)), message)


def at(*keys: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        inside: Any = manifest
        for key in keys[:-1]:
            inside = inside[key]
        inside[keys[-1]] = to

    return change


MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another format": (at("format", to="tar"), "not a bundle of Perdure"),
    "a later major": (at("version", to="2.0"), "reads 1.x"),
    "an earlier major": (at("version", to="0.9"), "reads 1.x"),
    "a version that is none": (at("version", to="1"), "not the version"),
    "a mode that is none": (at("mode", to="steal"), "no such mode"),
    "a copy without uid": (at("mode", to="copy"), "copies without a uid"),
    "a move with uid": (at("copy", to="c" * 32), "copies without a uid"),
    "another session": (at("session", "uid", to="f" * 32), "does not end its line"),
    "no line": (at("line", to=[]), "does not end its line"),
    "an id that is a path": (at("session", "id", to="../../etc"), "does not end its line"),
    "counts that lie": (at("counts", "effect", to=99), "as many rows of effect"),
    "a digest that is none": (at("files", EVENTS, "sha256", to="../x"), "a digest that is none"),
    "a wrong digest": (at("files", EVENTS, "sha256", to="f" * 64), "does not match its digest"),
    "a wrong digest of the summary": (at("files", "SUMMARY.md", "sha256", to="f" * 64), "does not match its digest"),
    "a wrong size": (at("files", EVENTS, "size", to=1), "is torn"),
    "a file that is not there": (at("files", "tables/more.jsonl", to={"sha256": "f" * 64, "size": 1}), "is missing"),
    "a field missing": (lambda manifest: manifest.pop("store"), "cannot be read"),
    "an artifact under another name": (
        lambda manifest: manifest["files"].update(
            {name: part | {"sha256": "f" * 64} for name, part in manifest["files"].items() if "artifacts" in name}
        ),
        "is missing, or is not",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", MANIFESTS)
async def test_a_forged_manifest_is_refused(what: str, bundle: Files, there: Runtime, folder: Path) -> None:
    change, message = MANIFESTS[what]
    await refused(there, write_folder(folder / "forged", with_manifest(bundle, change)), message)


async def test_a_forged_end_of_the_chain_is_refused(bundle: Files, there: Runtime, folder: Path) -> None:
    """Row and manifest agree on an end that the log does not have."""
    forged = with_rows(bundle, "tables/session.jsonl", lambda rows: rows[-1].update(chain="f" * 64))

    def agree(manifest: dict[str, Any]) -> None:
        manifest["line"][-1]["chain"] = "f" * 64
        if manifest["session"]["uid"] == manifest["line"][-1]["uid"]:
            manifest["session"]["chain"] = "f" * 64

    await refused(there, write_folder(folder / "forged", with_manifest(forged, agree)), "does not end where it should")


async def test_a_newer_minor_version_is_imported_with_unknown_parts(bundle: Files, opened: Open, folder: Path) -> None:
    """Unknown files, fields and columns are checked and left alone; a column that may be null may be missing."""

    def later(rows: list[Row]) -> None:
        for row in rows:
            row["mood"] = {"since": 7}
            del row["doubt"]

    def newer(manifest: dict[str, Any]) -> None:
        manifest |= {"version": "1.99", "weather": "fine"}

    files = with_rows(bundle, EFFECT, later) | {"tables/mood.jsonl": b"{}\n", "extra/deep/one.bin": b"\0"}
    there = opened("there")
    assert (await import_session(there, write_folder(folder / "newer", with_manifest(files, newer)))).changed


async def test_an_unknown_kind_of_event_is_refused(bundle: Files, there: Runtime, folder: Path) -> None:
    forged = rechained(bundle, edit(3, kind="session.exploded"))
    await refused_in_the_store(there, write_folder(folder / "forged", forged), "does not know: 'session.exploded'")


CONTRADICTIONS: dict[str, tuple[str, Callable[[list[Row]], None]]] = {
    "a settled effect without its time": (EFFECT, contradict(settled_at=None)),
    "a key too short": (EFFECT, contradict(idempotency_key="0" * 63)),
    "a result and an artifact": (EFFECT, contradict(artifact="f" * 64)),
    "an effect that follows none": (EFFECT, contradict(supersedes="e-none")),
    "a verdict without an author": (EFFECT, contradict(verdict="happened")),
    "a session that waits since never": (SESSION, edit(0, waiting_since=None)),
    "a result of a session that waits": (SESSION, edit(0, result="1")),
    "a pin that no event gave": (SESSION, edit(0, pinned_at=1)),
    "a schedule that did not start it": (SESSION, edit(0, schedule_uid="f" * 32)),
    "an attempt of no effect": ("tables/attempt.jsonl", edit(0, effect_id="e-none")),
    "a message that became nothing": ("tables/inbox.jsonl", edit(0, promoted_as=10_000)),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
async def test_rows_that_contradict_each_other_or_their_log_are_refused(
    what: str, target: str, bundle: Files, opened: Open, folder: Path
) -> None:
    there = opened(target)
    forged = write_folder(folder / "forged", with_rows(bundle, *CONTRADICTIONS[what]))
    await refused_in_the_store(there, forged, "contradict")
    assert [one async for one in there.sessions()] == []


async def refused_in_the_store(there: Runtime, path: Path, message: str) -> None:
    """Only the store finds out: artifacts were stored by then, and no row claims them."""
    with pytest.raises(BundleInvalid) as error:
        await import_session(there, path)
    assert message in error.value.message


async def test_names_and_code_in_rows_are_only_data(bundle: Files, opened: Open, folder: Path) -> None:
    """Invariant 14: nothing stored is ever executed, wherever it comes from."""
    hostile = "os:system('touch evil')"
    (id, *_) = [row["id"] for row in forged_bundles.rows(bundle, EFFECT)]

    def lie(events: list[Row]) -> None:
        for one in events:
            body = json.loads(one["body"])
            rows = body.get("rows", {})
            for row in rows.get("effect", ()):
                if row["id"] == id and "tool" in row:
                    row |= {"tool": hostile, "intent": {"__reduce__": hostile}}
            if "program" in rows.get("session", {}):
                rows["session"]["program"] = "subprocess:run"
            one["body"] = json.dumps(body)

    files = rechained(bundle, lie)
    files = with_rows(
        files, EFFECT, lambda rows: rows[0].update(tool=hostile, intent=json.dumps({"__reduce__": hostile}))
    )
    files = with_rows(files, SESSION, edit(0, program="subprocess:run"))
    there = opened("there")
    arrived = await import_session(there, write_folder(folder / "forged", files))
    waiting = await there.run(arrived.session.id) if arrived.session.status == "ready" else arrived.session
    assert (waiting.program, (folder / "evil").exists()) == ("subprocess:run", False)


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/tmp/evil",
        "tables/../../evil",
        "C:\\evil",
        "a\\b",
        ".hidden",
        "a//b",
        "tables/",
        "a\x1b[2J",
        "-x",
        "…",
    ],
)
async def test_a_name_that_leads_outside_is_refused(name: str, bundle: Files, there: Runtime, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (folder / "evil.zip").write_bytes(zipped(bundle, (zipfile.ZipInfo(name), b"x")))
    message = "cannot be the name" if name != "tables/" else "is a link or a device"
    if name == "tables/":
        info = zipfile.ZipInfo("tables/")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        (folder / "evil.zip").write_bytes(zipped(bundle, (info, b"")))
    await refused(there, folder / "evil.zip", message)


async def test_a_name_in_the_manifest_that_leads_outside_is_refused(
    bundle: Files, there: Runtime, folder: Path
) -> None:
    part = {"sha256": "f" * 64, "size": 1}
    await refused(
        there,
        write_folder(folder / "forged", with_manifest(bundle, at("files", "../evil", to=part))),
        "none may be named",
    )


async def test_links_and_devices_are_refused(bundle: Files, there: Runtime, folder: Path) -> None:
    link = zipfile.ZipInfo("tables/more.jsonl")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    (folder / "link.zip").write_bytes(zipped(bundle, (link, b"/etc/passwd")))
    await refused(there, folder / "link.zip", "is a link or a device")
    for kind in ("link", "pipe"):
        made = write_folder(folder / kind, bundle)
        (made / EVENTS).unlink()
        if kind == "link":
            os.symlink("/etc/passwd", made / EVENTS)
        else:
            os.mkfifo(made / EVENTS)
        await refused(there, made, "is a link or a device")
    made = write_folder(folder / "linked", {name: one for name, one in bundle.items() if not name.startswith("tables")})
    os.symlink(folder / "honest" / "tables", made / "tables")
    await refused(there, made, "is a link or a device")


async def test_a_duplicate_name_is_refused(bundle: Files, there: Runtime, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (folder / "twice.zip").write_bytes(zipped(bundle, (EVENTS, b"")))
    await refused(there, folder / "twice.zip", "is in the bundle twice")


@pytest.mark.slow
async def test_a_compression_bomb_is_refused(bundle: Files, there: Runtime, folder: Path) -> None:
    bomb = with_manifest(bundle | {"tables/bomb.jsonl": b"\0" * (1 << 24)})
    (folder / "bomb.zip").write_bytes(zipped(bomb))
    await refused(there, folder / "bomb.zip", "200 times its size")
    (folder / "flat.zip").write_bytes(zipped(bomb, packed=zipfile.ZIP_STORED))
    for limits in (BundleLimits(file=1 << 20), BundleLimits(total=1 << 20), BundleLimits(files=3)):
        await refused(there, folder / "flat.zip", "larger than the limits allow", limits=limits)
    await refused(there, folder / "flat.zip", "than the limits allow", limits=BundleLimits(rows=100))
    await refused(there, folder / "flat.zip", "than the limits allow", limits=BundleLimits(manifest=100))
    largest = max(len(one) for name, one in bundle.items() if name.endswith(".jsonl"))
    await refused(there, folder / "flat.zip", "the rows are larger than", limits=BundleLimits(rows=largest))
    lying = bytearray((folder / "bomb.zip").read_bytes())
    for place in range(len(lying) - 4):
        if lying[place : place + 4] == (1 << 24).to_bytes(4, "little"):
            lying[place : place + 4] = (1 << 10).to_bytes(4, "little")
    (folder / "lying.zip").write_bytes(lying)
    await refused(there, folder / "lying.zip", "")


@pytest.mark.slow
async def test_a_torn_bundle_is_refused_wherever_it_is_torn(bundle: Files, there: Runtime, folder: Path) -> None:
    whole = zipped(bundle)
    for end in [0, 1, 30, *range(100, len(whole), len(whole) // 12), len(whole) - 1]:
        (folder / "torn.zip").write_bytes(whole[:end])
        await refused(there, folder / "torn.zip", "")
    for name in bundle:
        torn = write_folder(folder / f"torn-{name.replace('/', '-')}", bundle)
        (torn / name).write_bytes(bundle[name][: len(bundle[name]) // 2] if bundle[name] else b"x")
        await refused(there, torn, "")
        (torn / name).unlink()
        await refused(there, torn, "")


async def test_any_changed_byte_is_noticed(bundle: Files, there: Runtime, folder: Path) -> None:
    """Except author and time in the manifest, which nothing proves."""
    for name, one in bundle.items():
        if name == "manifest.json" or not one:
            continue
        for place in range(0, len(one), max(1, len(one) // 3)):
            flipped = bytes([*one[:place], one[place] ^ 1, *one[place + 1 :]])
            await refused(
                there, write_folder(folder / "flipped", bundle | {name: flipped}), "does not match its digest"
            )


@pytest.mark.parametrize("content", [b"", b"PK", b"\x7fELF", b"PK\x05\x06" + b"\0" * 18, b"{}" * 5000])
async def test_a_file_that_is_no_bundle_is_refused(content: bytes, there: Runtime, folder: Path) -> None:
    (folder / "x.zip").write_bytes(content)
    await refused(there, folder / "x.zip", "")
    with pytest.raises(NotFound):
        await import_session(there, folder / "nothing.zip")
    (folder / "empty").mkdir()
    await refused(there, folder / "empty", "no manifest.json")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 100_000, b'{"format":1}', b"\xff\xfe", b"null"])
async def test_an_invalid_manifest_is_refused(content: bytes, bundle: Files, there: Runtime, folder: Path) -> None:
    await refused(there, write_folder(folder / "x", bundle | {"manifest.json": content}), "cannot be read")


async def test_a_bundle_with_artifacts_needs_an_artifact_folder(bundle: Files, there: Runtime, folder: Path) -> None:
    from perdure.interchange.import_ import import_bundle

    with pytest.raises(ConfigError, match="no folder"):
        import_bundle(there.store, write_folder(folder / "x", bundle), by="ada")


async def test_every_refusal_is_one_readable_sentence(bundle: Files, there: Runtime, folder: Path) -> None:
    """One sentence, a code and a hint, whatever the names in the bundle are."""
    hostile = write_folder(folder / "x", with_manifest(bundle, at("format", to="\x1b[2J\u202e" * 100)))
    with pytest.raises(PerdureError) as error:
        await import_session(there, hostile)
    assert (error.value.code, len(error.value.message) < 300, error.value.message.isprintable()) == (
        "bundle-invalid", True, True,
    )  # fmt: skip
    assert msgspec.json.encode(error.value.hint)


FILES = {
    "object_format": "sha1", "snapshots": ["a" * 40], "roots": [], "remotes": [], "prefix": "",
}  # fmt: skip


@pytest.mark.parametrize(
    "forged",
    [
        FILES, FILES | {"snapshots": []}, FILES | {"snapshots": ["--upload-pack=x"]}, FILES | {"base": "HEAD"},
        FILES | {"prefix": "../../etc/"}, FILES | {"prefix": "/etc/"}, FILES | {"prefix": ".git/"},
        FILES | {"object_format": "md5"}, FILES | {"snapshots": ["a" * 64]}, {}, [],
    ],
    ids=str,
)  # fmt: skip
async def test_forged_files_are_refused(forged: Any, bundle: Files, there: Runtime, folder: Path) -> None:
    """None of these snapshots is in the log."""
    added = {"files/files.json": json.dumps(forged).encode(), "files/snapshots.pack": b"PACK"}
    path = write_folder(folder / "forged", with_manifest(bundle | added))
    await refused(there, path, "files")


@pytest.mark.parametrize("name", ["files/files.json", "files/snapshots.pack"])
async def test_half_of_the_files_is_refused(name: str, bundle: Files, there: Runtime, folder: Path) -> None:
    path = write_folder(folder / "forged", with_manifest(bundle | {name: b"{}"}))
    await refused(there, path, "do not belong together")


@pytest.mark.parametrize(
    ("retries", "bodies"), [(2**40, ['{"again":[3]}']), (1, [None]), (1, ['{"again":[[3]]}']), (1, ["[]"]), (1, [])]
)
def test_retries_that_differ_from_the_log_are_refused(retries: int, bodies: list[str | None]) -> None:
    events = [{"kind": "session.retried", "body": body} for body in bodies]
    with pytest.raises(BundleInvalid, match="The retries of session s are not those of its log"):
        check_retries(StoredSession({"id": "s", "retries": retries}, events, {}))


@pytest.mark.parametrize("tool", ["merge_branch", "open_worktree", "rewind_files"])
def test_a_session_in_the_middle_of_a_folder_change_does_not_move(tool: str) -> None:
    effect = {"tool": tool, "state": "dispatched"}
    with pytest.raises(IllegalMove, match="belongs to this machine"):
        refuse_open_folder_changes(StoredSession({"id": "t-1"}, [], {"effect": [effect]}))
    refuse_open_folder_changes(StoredSession({"id": "t-1"}, [], {"effect": [effect | {"state": "acknowledged"}]}))


@pytest.mark.parametrize("move", [True, False])
@pytest.mark.parametrize(
    "bound", [rewind_folder.bind("f" * 32, 1, "a" * 40, "b" * 40, [], []), bring_home.bind("f" * 32)]
)
async def test_rewinds_and_merges_of_folders_are_neither_exported_nor_imported(
    bound: Any, move: bool, opened: Open, there: Runtime, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = opened("source")
    await here.start(bound, id="r")
    with pytest.raises(IllegalMove, match="a folder of one machine"):
        await export_session(here, "r", folder / "honest", move=move)
    monkeypatch.setattr(export, "refuse_folder_program", lambda _: None)
    await export_session(here, "r", folder / "forged", move=move)
    await refused(there, folder / "forged", "a folder of one machine")
