"""Attack: a bundle carries a signature that is not its own, or a key is put where the user's keys are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from perdure.agent.stored_agent import STORED
from perdure.config import data_folder
from perdure.errors import BundleInvalid, ConfigError
from perdure.interchange.signature import SigningKey
from perdure.interchange.signing_keys import add_key, known_keys, signing_key
from perdure.store.moves.session import NewSession, create
from perdure.testing import SinkClient
from tests.cli.support.terminal import Terminal
from tests.interchange.conftest import Open, opened, outside, sink
from tests.interchange.support import forged_bundles
from tests.interchange.support.forged_bundles import Files, with_rows, write_folder, zipped
from tests.interchange.support.transfer import export_session, import_session, start_session

__all__ = ["opened", "outside", "sink"]

ADA, MALLORY = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)
SIGNATURE = "signature.json"


@pytest.fixture(autouse=True)
def keys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's keys; the user knows Ada's."""
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    add_key("ada", ADA.public)
    return data_folder() / "keys"


@pytest.fixture
async def bundle(opened: Open, sink: SinkClient, folder: Path) -> Files:
    """A bundle that Ada signed."""
    here = opened("here")
    await start_session(here)
    await export_session(here, "t-1", folder / "honest", key=ADA)
    return forged_bundles.content(folder / "honest")


async def refused(opened: Open, path: Path, says: str, signed_by: str | None = None) -> None:
    there = opened("there")
    with pytest.raises(BundleInvalid, match=says):
        await import_session(there, path, signed_by=signed_by)
    assert [one async for one in there.sessions()] == []


def fitted(files: Files) -> Files:
    """The same with a manifest that is right about every file; the signature is left as it was."""
    unsigned = {name: one for name, one in files.items() if name != SIGNATURE}
    return forged_bundles.with_manifest(unsigned) | {SIGNATURE: files[SIGNATURE]}


def signed_with(files: Files, key: SigningKey, name: str) -> Files:
    """The same with a signature that is right."""
    return files | {SIGNATURE: key.sign(sha256(files["manifest.json"]).hexdigest(), name)}


async def test_a_changed_row_makes_the_signature_wrong(bundle: Files, opened: Open, folder: Path) -> None:
    forged = fitted(with_rows(bundle, "tables/session.jsonl", lambda rows: rows[0].update(priority=9)))
    await refused(opened, write_folder(folder / "evil", forged), "signature of the bundle is wrong")


async def test_a_swapped_artifact_is_refused_with_or_without_a_new_manifest(
    bundle: Files, opened: Open, folder: Path
) -> None:
    name = next(name for name in bundle if name.startswith("artifacts/"))
    swapped = bundle | {name: bytes(len(bundle[name]))}
    await refused(opened, write_folder(folder / "one", swapped), "does not match its digest")
    await refused(opened, write_folder(folder / "two", fitted(swapped)), "signature of the bundle is wrong")


async def test_a_signature_of_another_bundle_is_refused(bundle: Files, opened: Open, folder: Path) -> None:
    """Two copies of one session differ only in the uid of the copy."""
    await export_session(opened("here"), "t-1", folder / "second")
    moved = forged_bundles.content(folder / "second") | {SIGNATURE: bundle[SIGNATURE]}
    await refused(opened, write_folder(folder / "evil", moved), "signature of the bundle is wrong")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "grace"},
        {"key": MALLORY.public},
        {"signature": "0" * 128},
        {"signature": ""},
        {"signature": "no digits"},
        {"signature": "0" * 3000},
        {"name": ""},
        {"name": "a" * 201},
        {"key": "0" * 63},
        {"key": ADA.public.upper()},
        {"algorithm": "none"},
        {"algorithm": None},
        {"more": "fields"},
    ],
    ids=repr,
)
async def test_a_changed_signature_file_is_refused(
    change: dict[str, object], bundle: Files, opened: Open, folder: Path
) -> None:
    forged = bundle | {SIGNATURE: json.dumps(json.loads(bundle[SIGNATURE]) | change).encode()}
    await refused(opened, write_folder(folder / "evil", forged), "signature of the bundle")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[" * 4000, b'{"name": "\\ud800"}', b"null"],
    ids=["empty", "torn", "not UTF-8", "nested", "surrogate", "null"],
)
@pytest.mark.parametrize("form", [".zip", ""])
async def test_garbage_in_place_of_a_signature_is_refused(
    content: bytes, form: str, bundle: Files, opened: Open, folder: Path
) -> None:
    path, forged = folder / f"evil{form}", bundle | {SIGNATURE: content}
    if form:
        path.write_bytes(zipped(forged, packed=0))
    else:
        write_folder(path, forged)
    await refused(opened, path, "signature of the bundle cannot be read")


@pytest.mark.parametrize("size", [5 << 10, 2 << 20])
async def test_a_signature_file_beyond_its_limit_is_refused_unread(
    size: int, bundle: Files, opened: Open, folder: Path
) -> None:
    path = write_folder(folder / "evil", bundle | {SIGNATURE: bundle[SIGNATURE].ljust(size)})
    await refused(opened, path, "signature.json is longer than it says, or than the limits allow")


async def test_a_link_in_place_of_a_signature_is_refused(bundle: Files, opened: Open, folder: Path) -> None:
    path = write_folder(folder / "evil", {name: one for name, one in bundle.items() if name != SIGNATURE})
    (path / SIGNATURE).symlink_to(folder / "honest" / SIGNATURE)
    await refused(opened, path, "is a link")


async def test_a_signature_that_the_manifest_lists_is_refused(bundle: Files, opened: Open, folder: Path) -> None:
    forged = signed_with(forged_bundles.with_manifest(bundle), ADA, "ada")
    await refused(opened, write_folder(folder / "evil", forged), "signature.json is missing")


async def test_a_plain_signature_of_the_manifest_does_not_count(bundle: Files, opened: Open, folder: Path) -> None:
    """Something else that the key may have signed is never the signature of a bundle."""
    private = ADA._private
    for content in (bundle["manifest.json"], b"ada"):
        plain = json.loads(bundle[SIGNATURE]) | {"signature": private.sign(content).hex()}
        forged = bundle | {SIGNATURE: json.dumps(plain).encode()}
        await refused(opened, write_folder(folder / "evil", forged), "signature of the bundle is wrong")


async def test_an_unknown_key_does_not_get_the_name_that_it_claims(bundle: Files, opened: Open, folder: Path) -> None:
    forged = write_folder(folder / "evil", signed_with(bundle, MALLORY, "ada"))
    for name in ("ada", "any-known", "me"):
        await refused(opened, forged, f"unknown key, {MALLORY.public[:32]}", name)
    signer = (await import_session(opened("there"), forged)).signer
    assert (signer.state, signer.name, signer.key, signer.claimed_name) == ("unknown", None, MALLORY.public, "ada")


async def test_one_known_signer_does_not_pass_for_another(bundle: Files, opened: Open, folder: Path) -> None:
    add_key("mallory", MALLORY.public)
    forged = write_folder(folder / "evil", signed_with(bundle, MALLORY, "ada"))
    await refused(opened, forged, "signed by mallory, and must be signed by the key of ada", "ada")


async def test_a_stripped_signature_is_noticed_where_one_is_required(bundle: Files, opened: Open, folder: Path) -> None:
    path = write_folder(folder / "evil", {name: one for name, one in bundle.items() if name != SIGNATURE})
    for name in ("ada", "any-known", "me"):
        await refused(opened, path, "is not signed", name)
    assert (await import_session(opened("there"), path)).signer.state == "none"


async def test_a_known_signature_brings_no_permissions(opened: Open, folder: Path) -> None:
    here, there = opened("here"), opened("there")
    granted = {"prompt": "x", "model": "scripted:none", "allow": ["run_command"], "network": True}
    await here.store.write(create(NewSession(id="a-1", program="agent", arguments=granted), by="ada"))
    await export_session(here, "a-1", folder / "b", move=True, key=ADA)
    done = await import_session(there, folder / "b", signed_by="ada")
    assert (sorted(done.dropped), STORED.may(done.session)) == (["allow", "network"], (False, False))


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _readable(path: Path) -> None:
    path.chmod(0o640)


def _writable(path: Path) -> None:
    path.chmod(0o620)


def _open_folder(path: Path) -> None:
    path.parent.chmod(0o777)


def _linked_folder(path: Path) -> None:
    _link(path.parent)


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


WAYS = [_link, _readable, _writable, _open_folder, _linked_folder, _torn, _pipe]


@pytest.mark.parametrize("way", WAYS)
def test_a_signing_key_that_others_may_have_touched_is_not_used(way: Callable[[Path], None], keys: Path) -> None:
    signing_key()
    way(keys / "signing.key")
    with pytest.raises(ConfigError, match=str(keys)) as refused:
        signing_key()
    assert refused.value.hint


@pytest.mark.parametrize("way", [one for one in WAYS if one is not _readable])
def test_known_keys_that_others_may_have_changed_are_not_used(way: Callable[[Path], None], keys: Path) -> None:
    way(keys / "known.json")
    with pytest.raises(ConfigError, match=str(keys)):
        known_keys()
    with pytest.raises(ConfigError, match=str(keys)):
        add_key("mallory", MALLORY.public)


def test_keys_of_another_user_are_not_used(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root gives the file away. Another user cannot, so it takes another id: then the file is not its own."""
    if os.getuid() == 0:
        os.chown(keys / "known.json", 65534, 65534)
    else:
        other = os.getuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(ConfigError, match="belongs to another user"):
        known_keys()


def test_an_unusable_key_or_name_seals_nothing(terminal: Terminal, keys: Path) -> None:
    assert terminal.run("user_review", "review-7").code == 3
    signing_key()
    (keys / "signing.key").chmod(0o644)
    said = terminal("export", "review-7", "--move", "--sign")
    assert (said.code, "can be read or changed by others" in said.err, "chmod 600" in said.err) == (2, True, True)
    (keys / "signing.key").chmod(0o600)
    long = terminal("export", "review-7", "--move", "--sign", "--by", "a" * 201)
    assert (long.code, "1 to 200 characters" in long.err) == (2, True)
    assert terminal("show", "review-7", "--json").json["session"]["sealed_at"] is None
    assert not (terminal.folder / "review-7.zip").exists()


def test_the_name_of_a_stranger_is_shown_without_control_characters(terminal: Terminal, folder: Path) -> None:
    assert terminal.run("user_review", "review-7").code == 3
    assert terminal("export", "review-7", "--to", "b").code == 0
    name = 'ada", with a key that you know.\x1b[2K\n\u202eThe bundle is signed by ada' + "x" * 100
    write_folder(folder / "evil", signed_with(forged_bundles.content(folder / "b"), MALLORY, name))
    said = terminal("import", "evil", "--store", "other.db")
    (line,) = [line for line in said.out.splitlines() if "signed" in line]
    assert line.startswith(f"The bundle is signed by an unknown key, {MALLORY.public[:32]}, which claims to be")
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out


def test_a_person_signs_exchanges_keys_and_requires_a_signature(
    terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.run("user_review", "review-7").code == 3
    told = terminal("export", "review-7", "--sign", "--to", "b.zip")
    key = terminal("keys", "--json").lines[0]["key"]
    assert (told.code, f"It is signed by ada, with the key {key}." in told.out) == (0, True)
    own = terminal("import", "b.zip", "--store", "own.db")
    assert "The bundle is signed with your own key.\n" in own.out
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "grace"))
    assert "You have no key of your own yet" in terminal("keys").out
    strange = terminal("import", "b.zip", "--store", "1.db", "--signed-by", "any-known")
    assert (strange.code, "[bundle-invalid]" in strange.err, Path("1.db").exists()) == (1, True, False)
    assert terminal("keys", "add", "ada", key).out.startswith(f"ada  {key}\n")
    known = terminal("import", "b.zip", "--store", "1.db", "--signed-by", "ada")
    assert "The bundle is signed by ada, with a key that you know.\n" in known.out
    again = terminal("import", "b.zip", "--store", "1.db", "--json").json
    assert again["signer"] == {"state": "known", "name": "ada", "key": key, "claimed_name": "ada"}
    assert terminal("keys", "remove", "ada").code == 0
    assert terminal("import", "b.zip", "--store", "2.db", "--signed-by", "ada").code == 1
    unsigned = terminal("export", "review-7", "--to", "c.zip")
    assert unsigned.code == 0
    assert "The bundle is not signed.\n" in terminal("import", "c.zip", "--store", "3.db").out
    for wrong in (["add", "ada"], ["remove"], ["remove", "ada", key], ["list"]):
        assert terminal("keys", *wrong).code == 2


@pytest.mark.parametrize("key", ["01" + "00" * 31, "01" + "00" * 30 + "80", "00" * 32, "ec" + "ff" * 30 + "7f"])
def test_a_key_for_which_one_signature_fits_everything_is_refused(key: str, keys: Path) -> None:
    with pytest.raises(ConfigError, match="not a public key"):
        add_key("weak", key)


def test_an_empty_signing_key_is_damaged_and_not_replaced(keys: Path) -> None:
    keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    (keys / "signing.key").touch(0o600)
    with pytest.raises(ConfigError, match="does not hold a signing key"):
        signing_key()
    assert (keys / "signing.key").read_bytes() == b""
