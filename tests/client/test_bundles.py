"""Bundles over HTTP: exported from one service and imported into another, over lost connections."""

from __future__ import annotations

import io
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

import perdure
from perdure import BundleInvalid, Conflict, NotFound, Session, program
from perdure.domain.principal import Role
from perdure.errors import ConfigError, PerdureError
from perdure.interchange.bundle import MANIFEST
from tests.client.support.cutting_proxy import cutting_proxy
from tests.client.support.service import service
from tests.server.support.service import PATIENCE
from tests.server.support.tokens import a_token

pytestmark = pytest.mark.databases("sqlite", "postgres")


@program
async def carried(s: Session, n: int) -> object:
    return [await s.step("double", lambda: n * 2), await s.ask("Continue?")]


async def test_session_is_moved_from_one_service_to_another(target: str, folder: Path) -> None:
    async with perdure.open(target) as here, service(here) as url, cutting_proxy(url) as proxy:
        await here.run((await here.start(carried.bind(n=4), id="c")).id)
        bundle = folder / "c.zip"
        async with perdure.connect(proxy.address, await a_token(here, Role.OWNER), patience=PATIENCE) as there:
            proxy.lose_answers, proxy.spoil_bundles = 1, 1
            done = await there.export("c", bundle, move=True)
            assert (proxy.spoil_bundles, done.sha256) == (0, sha256(bundle.read_bytes()).hexdigest())
            assert (done.path, done.session.id, done.mode) == (str(bundle), "c", "move")
            assert (await there.get("c")).sealed_at is not None
            with pytest.raises(Conflict):
                await there.export("c", bundle, move=True)
            copied = io.BytesIO()
            await there.export("c", copied, move=True)
            assert zipfile.ZipFile(copied).namelist() == zipfile.ZipFile(bundle).namelist()
    async with perdure.open(folder / "other.db") as here, service(here) as url, cutting_proxy(url) as proxy:
        async with perdure.connect(proxy.address, await a_token(here, Role.OWNER), patience=PATIENCE) as there:
            proxy.lose_answers = 1
            found = (await there.import_(bundle)).imported
            assert (found.session.id, found.mode, found.source.id) == ("c", "move", "c")
            (asked,) = (await there.get("c")).waits
            await there.answer(asked.id, "yes")
            await here.run("c")
            assert await there.result("c") == [8, "yes"]
            assert len([one async for one in here.sessions()]) == 1
    assert [one.name for one in folder.iterdir() if one.name.startswith(".c.zip")] == []


async def test_torn_bundle_is_refused_by_both_sides(target: str, folder: Path) -> None:
    async with perdure.open(target) as here, service(here) as url:
        async with perdure.connect(url, await a_token(here, Role.OWNER), patience=PATIENCE) as there:
            (folder / "torn.zip").write_bytes(b"PK")
            with pytest.raises(NotFound):
                await there.import_(folder / "torn.zip")
            with pytest.raises(NotFound):
                await there.import_(folder / "missing.zip")
            await here.run((await here.start(carried.bind(n=4), id="c")).id)
            await there.export("c", folder / "c.zip")
            forged = folder / "forged.zip"
            with zipfile.ZipFile(folder / "c.zip") as whole, zipfile.ZipFile(forged, "w") as made:
                for name in whole.namelist():
                    made.writestr(name, whole.read(name) + (b"" if name == MANIFEST else b" "))
            with pytest.raises(BundleInvalid):
                await there.import_(forged)


async def test_what_a_service_cannot_do_with_a_bundle_is_refused(target: str, folder: Path) -> None:
    async with perdure.open(target) as here, service(here) as url:
        async with perdure.connect(url, await a_token(here, Role.OWNER)) as there:
            with pytest.raises(ConfigError):
                await there.export("c", folder / "c.zip", sign=True)
            with pytest.raises(ConfigError):
                await there.import_(folder / "c.zip", into=folder)
            with pytest.raises(PerdureError):
                await there.export("missing", folder / "c.zip")
            assert not (folder / "c.zip").exists()
