"""The files in `deploy/`: as far as they can be checked without systemd, Docker and Kubernetes."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import psycopg
import pytest
import yaml

from perdure import cli
from perdure.server.observability import health
from perdure.store.store import Store
from tests.conftest import Scratch
from tests.packages import need
from tests.store.support.sessions import a_holder, a_session

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = [
    pytest.param(one, id=f"{path.stem}-{one['kind']}")
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for one in yaml.safe_load_all(path.read_text())
]
PROGRAM = "/usr/local/bin/perdure"


def unit(path: Path) -> dict[str, str]:
    parsed = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(path.read_text())
    return dict(parsed["Service"])


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    return found


def command_lines() -> list[list[str]]:
    """The words of every command line of `perdure` in these files."""
    found = [shlex.split(unit(path)["ExecStart"])[1:] for path in UNITS]
    found += [one["command"] for one in compose()["services"].values() if "command" in one]
    for parameter in KUBERNETES:
        for one in containers(parameter.values[0]):  # type: ignore[arg-type]
            found += [one["args"]] if "args" in one else []
            found += [one["readinessProbe"]["exec"]["command"][1:]] if "exec" in one.get("readinessProbe", ()) else []
    (line,) = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    return [*found, yaml.safe_load(line)]


def option(words: list[str], name: str) -> float:
    """The seconds that an option gives."""
    return float(words[words.index(name) + 1].removesuffix("s"))


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_command_lines_of_deployment_files_are_valid(words: list[str]) -> None:
    command = cli.perdure.get_command(click.Context(cli.perdure), words[0])
    assert command is not None
    command.make_context(words[0], list(words[1:]), click.Context(cli.perdure, obj=None))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_units(path: Path, tmp_path: Path) -> None:
    need("systemd-analyze")
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace(PROGRAM, str(Path(sys.executable).parent / "perdure")))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_wait_for_the_drain_and_leave_command_runners_alone(path: Path) -> None:
    given = unit(path)
    assert (given["Type"], given["KillMode"], given["Restart"]) == ("notify", "process", "always")
    assert int(given["WatchdogSec"]) > 0
    assert int(given["TimeoutStopSec"]) > option(shlex.split(given["ExecStart"]), "--drain")
    assert "RestrictNamespaces" not in given  # the sandbox of agents needs them


@pytest.mark.parametrize("manifest", [one for one in KUBERNETES if "ScaledObject" not in str(one.id)])
def test_manifests_match_the_schemas_of_kubernetes(manifest: dict[str, Any]) -> None:
    assert kubernetes_validate.validate(manifest, "1.31", strict=True) == "1.31"


def test_pods_are_given_more_time_than_the_drain() -> None:
    for parameter in KUBERNETES:
        for one in containers(parameter.values[0]):  # type: ignore[arg-type]
            if "--drain" in one.get("args", ()):
                pod: Any = parameter.values[0]["spec"]["template"]["spec"]  # type: ignore[index]
                assert pod["terminationGracePeriodSeconds"] > option(one["args"], "--drain")
                assert "preStop" not in one.get("lifecycle", {})  # a second signal gives sessions back at once


def test_probes_and_the_service_reach_the_port_of_the_process() -> None:
    found = {str(one.id): one.values[0] for one in KUBERNETES}
    deployment: Any = found["service-Deployment"]
    service: Any = found["service-Service"]
    (container,) = containers(deployment)
    (port,) = container["ports"]
    assert str(port["containerPort"]) == container["args"][container["args"].index("--port") + 1]
    probes = [container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert [(one["path"], one["port"]) for one in probes] == [("/livez", port["name"]), ("/readyz", port["name"])]
    assert {"/livez", "/readyz"} <= set(health.PATHS)
    assert [one["targetPort"] for one in service["spec"]["ports"]] == [port["name"]]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]


def test_compose_file_refers_to_what_it_defines() -> None:
    file = compose()
    services, volumes = file["services"], file["volumes"]
    for one in services.values():
        assert set(one.get("depends_on", ())) <= set(services)
        named = {volume.partition(":")[0] for volume in one.get("volumes", ()) if not volume.startswith((".", "/"))}
        assert named <= set(volumes)
        if "command" in one:
            assert float(one["stop_grace_period"].removesuffix("m")) * 60 > option(one["command"], "--drain")
    assert (DEPLOY / services["serve"]["build"]["context"] / services["serve"]["build"]["dockerfile"]).is_file()


@pytest.mark.databases("postgres")
def test_the_query_to_scale_on_counts_ready_and_running_sessions(store: Store, scratch: Scratch) -> None:
    (scaled,) = [one.values[0] for one in KUBERNETES if "ScaledObject" in str(one.id)]
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]  # type: ignore[index]
    for number in range(3):
        a_session(store, f"s-{number}")
    a_holder(store, a_session(store, "running").uid)
    with psycopg.connect(scratch.url) as db:
        assert db.execute(query).fetchone() == (4,)


def test_files_of_the_image_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert [name for name in copied if not (DEPLOY.parent / name).exists()] == []
