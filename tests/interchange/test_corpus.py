"""Every bundle that a released version ever wrote can still be read, and its session continues.

If this fails, an archived bundle of a user has become unreadable: extend the reader, and never freeze
anything anew.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from perdure.domain.session import Status
from perdure.interchange.bundle import MAJOR
from perdure.interchange.pack import digest_of
from perdure.interchange.unpack import open_bundle
from perdure.runtime.runtime import open as open_runtime
from perdure.testing import ManualClock, SinkClient
from tests.interchange.support import transfer
from tests.interchange.support.transfer import bodies, import_session, run_to_end
from tests.interchange.support.write_corpus import NOON

CORPUS = Path(__file__).with_name("corpus")
FROZEN = {
    "v1/copy": "31e33f3acbc993c526051cde55bd9045f280fc7cbfe3d286c1a7b745dd57d1cc",
    "v1/move.zip": "393a90c856d67bfb67888620ff09c46722807f822437c4610b9569c16dba1dd6",
}
BUNDLES = [CORPUS / name for name in FROZEN]


def test_the_corpus_has_every_version_unchanged() -> None:
    assert {name: digest_of(CORPUS / name) for name in FROZEN} == FROZEN
    assert {path.relative_to(CORPUS).as_posix() for path in CORPUS.glob("v*/*")} == FROZEN.keys()
    assert {path.name for path in CORPUS.iterdir()} == {f"v{number}" for number in range(1, MAJOR + 1)}
    for path in BUNDLES:
        with open_bundle(path) as bundle:
            found = {name: sha256(b"".join(bundle.pieces(name))).hexdigest() for name in bundle.manifest.files}
            assert found == {name: part.sha256 for name, part in bundle.manifest.files.items()}


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.name)
async def test_a_frozen_bundle_is_imported_and_continues(
    path: Path, target: str, sink: SinkClient, folder: Path
) -> None:
    """On the day on which it was written: the approval that it waits for has expired since."""
    async with open_runtime(target, by="ada", clock=ManualClock(NOON), artifacts=folder / "artifacts") as rt:
        came = await import_session(rt, path)
        assert (came.changed, (await import_session(rt, path)).changed) == (True, False)
        for one in [one async for one in rt.sessions()]:
            transfer.verify(rt, one.uid)
        if came.mode == "move":
            ended = await run_to_end(rt, "journey", sink)
            assert (ended.status, ended.result[-1]) == (Status.DONE, "yes")
            assert bodies(sink) == ["comment: only \x1b[31mstyle\x1b[0m: yes", "merge: 7"]
        else:
            waiting = await rt.run("branch")
            assert ([one.kind for one in waiting.waits], bodies(sink)) == (["effect"], [])


def test_the_manifest_of_version_one_is_unchanged() -> None:
    manifest = json.loads((CORPUS / "v1" / "copy" / "manifest.json").read_bytes())
    assert (manifest["format"], manifest["version"], manifest["mode"]) == ("perdure-bundle", "1.0", "copy")
    assert [one["id"] for one in manifest["line"]] == ["journey", "branch"]
