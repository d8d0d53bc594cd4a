"""A client in TypeScript, with types that are generated from the OpenAPI document: it is type-checked, and it works."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from perdure import Session, program
from perdure.store.store import Store
from perdure.testing.proxy import wait_until
from tests.npm import NODE, installed
from tests.server.support.service import OWNER, Service

SOURCE = Path(__file__).parent / "typescript"
FILES = ("sample.ts", "wrong.ts", "environment.d.ts", "tsconfig.json", "package.json")
OPTIONS = ("--default-non-nullable=false", "--empty-objects-unknown")  # what has a default may be left out
PATIENCE = 300
pytestmark = [pytest.mark.slow, pytest.mark.databases("sqlite")]


@program
async def typescript_sample(s: Session, pr: int) -> object:
    return await s.ask(f"Merge {pr}?")


def node(folder: Path, *words: str) -> str:
    """Run one of the packages; what it printed."""
    done = subprocess.run([str(NODE), *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def generate(service: Service, folder: Path) -> Path:
    """A folder with the sample, and with types of the document that the service serves."""
    packages = installed(SOURCE)
    for name in FILES:
        shutil.copy(SOURCE / name, folder / name)
    (folder / "node_modules").symlink_to(packages / "node_modules")
    document = httpx.get(f"{service.address}/openapi.json", trust_env=False, timeout=PATIENCE)
    (folder / "service.json").write_text(document.text)
    node(folder, "node_modules/openapi-typescript/bin/cli.js", "service.json", "--output", "service.ts", *OPTIONS)
    return folder


def test_client_of_generated_types_is_checked_and_works(store: Store, folder: Path) -> None:
    service = Service(store)
    try:
        made = generate(service, folder)
        node(made, "node_modules/typescript/bin/tsc", "--project", ".")
        token = service.token(OWNER).token
        words = [str(NODE), "built/sample.js", service.address, token, "from-typescript"]
        with subprocess.Popen(words, cwd=made, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            owner = service.client(OWNER)
            wait_until(lambda: owner.get("/v1/sessions/from-typescript").status_code == 200, "the session", PATIENCE)
            assert service.run("from-typescript") == "waiting"
            printed, errors = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, errors
        found = {"status": "waiting", "seen": ["from-typescript"], "waits": ["input"], "code": "not-found"}
        assert json.loads(printed) == found
    finally:
        service.close()
