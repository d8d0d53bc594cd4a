"""A bundle can be signed, and an import reports who signed it."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from perdure.config import data_folder
from perdure.errors import BundleInvalid, ConfigError, Conflict, NotFound
from perdure.interchange import signing_keys
from perdure.interchange.signature import SigningKey, verified
from perdure.interchange.signing_keys import Signer, add_key, known_keys, own_key, remove_key, signing_key
from perdure.store.moves import event
from perdure.testing import SinkClient
from tests.crash.support.kill_points import CALLS
from tests.forked import fork
from tests.interchange.conftest import Open
from tests.interchange.support import forged_bundles
from tests.interchange.support.transfer import export_session, import_session, start_session

OTHER = SigningKey(b"\1" * 32)


@pytest.fixture(autouse=True)
def data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for this test only, with the folder of the keys."""
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    return data_folder() / "keys"


@pytest.mark.parametrize("form", [".zip", ""])
async def test_an_import_reports_whether_the_signing_key_is_known(
    form: str, opened: Open, sink: SinkClient, folder: Path
) -> None:
    here, path = opened("here"), folder / f"t{form}"
    await start_session(here)
    done = await export_session(here, "t-1", path, key=OTHER)
    assert done.signed_with == OTHER.public
    unknown = await import_session(opened("there"), path)
    assert unknown.signer == Signer(state="unknown", name=None, key=OTHER.public, claimed_name="ada")
    add_key("grace", OTHER.public)
    known = await import_session(opened("there"), path, signed_by="grace")
    assert known.signer == Signer(state="known", name="grace", key=OTHER.public, claimed_name="ada")
    assert (known.changed, (await import_session(opened("third"), path, signed_by="any-known")).changed) == (
        False,
        True,
    )


async def test_an_own_signature_is_known_as_me_and_no_signature_as_none(
    opened: Open, sink: SinkClient, folder: Path
) -> None:
    here = opened("here")
    await start_session(here)
    await export_session(here, "t-1", folder / "mine.zip", key=signing_key())
    await export_session(here, "t-1", folder / "plain.zip")
    assert (await import_session(opened("there"), folder / "mine.zip", signed_by="me")).signer.name == "me"
    assert (await import_session(opened("third"), folder / "plain.zip")).signer == Signer(state="none")


@pytest.mark.parametrize(("move", "kind"), [(True, "moved"), (False, "copied")])
async def test_the_log_records_which_key_signed(
    move: bool, kind: str, target: str, opened: Open, sink: SinkClient, folder: Path
) -> None:
    here, there = opened("here"), opened(target)
    await start_session(here)
    await export_session(here, "t-1", folder / "t.zip", move=move, key=OTHER)
    add_key("grace", OTHER.public)
    uid = (await import_session(there, folder / "t.zip")).session.uid
    found = [one.body[kind] for one in there.store.read_now(event.last, uid, limit=5) if one.body and kind in one.body]
    assert [one["signed_by"] for one in found] == [{"key": OTHER.public, "name": "grace"}]


async def test_a_signature_is_the_only_difference_and_is_reproducible(
    opened: Open, sink: SinkClient, folder: Path
) -> None:
    here = opened("here")
    await start_session(here)
    await export_session(here, "t-1", folder / "plain", move=True)
    first = await export_session(here, "t-1", folder / "signed", move=True, key=OTHER)
    again = await export_session(here, "t-1", folder / "signed", move=True, key=OTHER)
    plain, signed = forged_bundles.content(folder / "plain"), forged_bundles.content(folder / "signed")
    assert (first.sha256, signed.keys() - plain.keys()) == (again.sha256, {"signature.json"})
    assert plain == {name: one for name, one in signed.items() if name != "signature.json"}
    with pytest.raises(Conflict, match="is there already"):
        await export_session(here, "t-1", folder / "plain", move=True, key=OTHER)


def test_the_signature_of_a_key_and_a_manifest_never_changes() -> None:
    """Bundles that were signed once must stay valid."""
    made = verified(SigningKey(bytes(32)).sign("0" * 64, "ada"), "0" * 64)
    assert (made.key[:16], made.signature[:32]) == ("3b6a27bcceb6a42d", "623555a4fd754e2696b5db112b9de69b")


def test_the_signing_key_is_created_once_for_its_owner_only(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, real = Barrier(2), os.rename

    def rename(*args: Any, **kwargs: Any) -> None:
        with suppress(BrokenBarrierError):  # only one thread comes here, if nothing is wrong
            both.wait(timeout=0.5)
        real(*args, **kwargs)

    assert own_key() is None
    monkeypatch.setattr(os, "rename", rename)
    before = os.umask(0)
    try:
        with ThreadPoolExecutor(2) as threads:
            found = {one.public for one in threads.map(lambda _: signing_key(), range(2))}
    finally:
        os.umask(before)
    assert found == {own_key()}
    assert [stat.S_IMODE(one.stat().st_mode) for one in (data / "signing.key", data)] == [0o600, 0o700]
    assert [one.name for one in data.iterdir()] == ["signing.key"]


def _die_at(fatal: int) -> None:
    """Kill this process at its n-th change of a file."""
    left = fatal

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return counted

    for name in CALLS:
        setattr(os, name, around(getattr(os, name)))


@pytest.mark.parametrize(
    ("change", "look"),
    [(signing_key, own_key), (lambda: add_key("grace", OTHER.public), lambda: known_keys() or None)],
    ids=["own key", "known key"],
)
def test_a_kill_while_a_key_is_written_leaves_all_or_nothing(
    change: Callable[[], object], look: Callable[[], object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, kills = 0, 0
    left: object = None
    for fatal in range(1, 40):
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / f"data-{fatal}"))

        def act(fatal: int = fatal) -> None:
            _die_at(fatal)
            change()

        _, status = os.waitpid(fork(act), 0)
        left = look()
        change()
        assert left in (None, look())
        if not os.WIFSIGNALED(status):
            break
        kills += 1
    assert (status, left is None, kills > 5) == (0, False, True)


def test_a_name_has_one_key_and_a_key_one_name() -> None:
    add_key("grace", OTHER.public)
    add_key("grace", OTHER.public)
    with pytest.raises(Conflict, match="has another key"):
        add_key("grace", SigningKey(b"\2" * 32).public)
    with pytest.raises(Conflict, match="known as grace"):
        add_key("ada", OTHER.public)
    with pytest.raises(Conflict, match="your own"):
        add_key("ada", signing_key().public)
    remove_key("grace")
    assert known_keys() == {}
    with pytest.raises(NotFound):
        remove_key("grace")


@pytest.mark.parametrize("name", ["me", "any-known", "", "a b", "x\x1b[2J", "a" * 201])
def test_a_name_that_cannot_be_typed_or_is_reserved_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name"):
        add_key(name, OTHER.public)


@pytest.mark.parametrize("key", ["", "0" * 63, "G" * 64, "ed25519-private-key:" + "0" * 64])
def test_an_invalid_public_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="not a public key"):
        add_key("grace", key)


async def test_a_name_without_a_key_is_refused_before_anything_is_read(
    opened: Open, sink: SinkClient, folder: Path
) -> None:
    here = opened("here")
    await start_session(here)
    await export_session(here, "t-1", folder / "t.zip", key=OTHER)
    with pytest.raises(NotFound, match="'grace'"):
        await import_session(opened("there"), folder / "t.zip", signed_by="grace")
    with pytest.raises(BundleInvalid, match="unknown key"):
        await import_session(opened("there"), folder / "t.zip", signed_by="any-known")


async def test_without_the_package_only_unsigned_bundles_are_imported(
    opened: Open, sink: SinkClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = opened("here")
    await start_session(here)
    await export_session(here, "t-1", folder / "signed.zip", key=OTHER)
    await export_session(here, "t-1", folder / "plain.zip")
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError) as refused:
        await import_session(opened("there"), folder / "signed.zip")
    assert "pip install 'perdure[sign]'" in refused.value.hint
    with pytest.raises(ConfigError):
        signing_keys.signing_key()
    assert (await import_session(opened("there"), folder / "plain.zip")).changed
