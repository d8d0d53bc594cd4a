"""Peers: the runner of their adapters, and the rules that every adapter keeps."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perdure.errors import PerdureError
from perdure.evaluation import peers, services
from perdure.evaluation.crash.plan import PEERS
from perdure.evaluation.crash.trial import run
from perdure.evaluation.peers import ASKED, DONE, KILLED, ROOT, Peer, find_peers
from perdure.evaluation.results import verify
from perdure.evaluation.workload import Trial
from perdure.testing import Sink
from tools.peers import LOCKS, REQUIREMENTS

ADAPTERS = sorted((ROOT / "evaluation" / "peers").glob("*_peer.py"))
TOY = """
import os, signal
from pathlib import Path
import outside

PEER = {"system": "toy", "packages": [], "page": "none", "substrates": ["files"],
        "configurations": {"documented": "one file for each effect"}, "cannot": ["anything else"]}

def done(options):
    return [int(path.name) for path in Path(options.state).glob("[0-9]")]

def run(options):
    for n in range(1, options.effects + 1):
        if n not in done(options):
            if options.configuration == "once":
                raise outside.Asked(n)
            outside.act(options, n)
            if Path(options.state, "die").exists():
                Path(options.state, "die").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            Path(options.state, str(n)).touch()

outside.main(PEER, run=run, inspect=lambda options: outside.states(done(options), [], options.effects))
"""

SILENT = """
import time
import outside

PEER = {"system": "toy", "packages": [], "page": "none", "substrates": [], "configurations": {}, "cannot": []}
outside.main(PEER, run=None, inspect=None, serve=lambda options: time.sleep(600))
"""


@pytest.fixture
def toy(tmp_path: Path) -> Peer:
    """A peer of this test, which needs no installation."""
    home = tmp_path / "evaluation" / "peers"
    home.mkdir(parents=True)
    (home / "toy_peer.py").write_text(TOY)
    (home / "outside.py").write_bytes((ROOT / "evaluation" / "peers" / "outside.py").read_bytes())
    python = tmp_path / ".peers" / "toy" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return find_peers(root=tmp_path)[0]


def test_a_killed_peer_continues_and_the_sink_sees_it(toy: Peer, tmp_path: Path) -> None:
    (tmp_path / "die").touch()
    with Sink() as sink:
        options = {"sink": sink.url, "state": str(tmp_path), "trial": "t1", "configuration": "documented"}
        first = toy.start(**options)
        first.communicate()
        assert first.returncode == KILLED
        assert toy.inspect(**options) == {"1": "absent", "2": "absent", "3": "absent"}
        second = toy.start(**options)
        assert '"ended": "done"' in second.communicate()[0]
        assert second.returncode == DONE
        assert toy.inspect(**options) == {"1": "acknowledged", "2": "acknowledged", "3": "acknowledged"}
        assert [line["body"]["n"] for line in sink.log() if line["what"] == "kept"] == [1, 1, 2, 3]


def test_a_peer_that_needs_a_person_says_so(toy: Peer, tmp_path: Path) -> None:
    asked = toy.start(sink="http://127.0.0.1:1", state=str(tmp_path), trial="t1", configuration="once")
    assert '"asked": [1]' in asked.communicate()[0]
    assert asked.returncode == ASKED


def test_a_killed_peer_is_judged_by_the_crash_workload(
    toy: Peer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "peer", lambda _: toy)
    own = folder / "raw" / "crash" / "t1"
    own.mkdir(parents=True)
    parameters = {"ability": "nothing", "kill": "sink:after"}
    with services.running():
        result = run(Trial(id="t1", system="toy/files/documented/synced", parameters=parameters), own)
    (own / "trial.json").write_bytes(msgspec.json.encode(result))
    found = verify(folder, "crash")["t1"]
    assert (found.void, found.verdicts["doubled"], found.verdicts["processes"]) == ("", 1, 2)
    assert found.findings["class"] == "silent"


def test_a_peer_pauses_after_the_reply_where_its_sends_are_counted(toy: Peer, tmp_path: Path) -> None:
    with Sink() as sink:
        options = {"sink": sink.url, "state": str(tmp_path), "trial": "t1", "pause": "replied"}
        command = toy.command("run", **options)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "paused\n"
        assert [line["body"]["n"] for line in sink.log() if line["what"] == "kept"] == [1, 2]
        assert toy.inspect(state=str(tmp_path), trial="t1") == {"1": "acknowledged", "2": "absent", "3": "absent"}
        process.kill()
        process.communicate()


def test_a_server_that_does_not_become_ready_is_given_up(toy: Peer, tmp_path: Path) -> None:
    toy.script.write_text(SILENT)
    with pytest.raises(PerdureError, match=r"said nothing for 0\.5 s"), toy.serving(tmp_path, limit=0.5):
        pass


def test_a_peer_without_an_adapter_is_not_run(folder: Path) -> None:
    trial = Trial(id="t1", system="nothing/sqlite/documented/synced", parameters={"ability": "nothing"})
    assert run(trial, folder).outcome == "not run"


def test_a_missing_peer_is_not_run_with_the_command(tmp_path: Path) -> None:
    assert Peer("dbos", tmp_path).not_run == "dbos is not installed; `make peers ARGS=dbos` installs it"


def test_a_broken_installation_is_not_run_with_its_error(toy: Peer) -> None:
    toy.script.write_text("import a_module_that_is_missing\n")
    assert "No module named 'a_module_that_is_missing'" in toy.not_run


@pytest.mark.parametrize("path", ADAPTERS, ids=[path.stem for path in ADAPTERS])
def test_adapters_are_short_name_their_page_and_do_not_import_perdure(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") <= 150
    tree = ast.parse(source)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name.split(".")[0] == "perdure" for name in imported)
    assert re.search(r'"page": "https://', source)
    assert re.search(r'"cannot": \[\n', source)
    assert re.search(r'"settings": \{', source)
    assert '"documented": ' in source
    assert path.name.removesuffix("_peer.py") in REQUIREMENTS


def test_every_peer_has_an_adapter_and_a_place_in_the_plan() -> None:
    names = {path.name.removesuffix("_peer.py") for path in ADAPTERS}
    assert names == REQUIREMENTS.keys() == {peer.split("/")[0] for peer, _ in PEERS}


@pytest.mark.parametrize("name", sorted(REQUIREMENTS))
def test_every_peer_is_pinned_with_hashes_and_without_addresses(name: str) -> None:
    text = (LOCKS / f"{name}.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^[a-z0-9][^ ]*==", text, re.MULTILINE)
    assert pins
    assert text.count("--hash=sha256:") >= len(pins)
    assert "://" not in text


def test_the_npm_lock_has_digests_and_no_addresses() -> None:
    text = (LOCKS.parent / "restate" / "package-lock.json").read_text(encoding="utf-8")
    assert '"integrity": "sha512-' in text
    assert '"resolved"' not in text
