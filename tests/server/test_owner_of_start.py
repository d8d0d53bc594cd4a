"""Whom a session belongs to that is started through the service: budgets and policies go by its owner."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from perdure.cli import main
from tests.server.support.service import Service

pytestmark = pytest.mark.databases("sqlite")

BODY: dict[str, Any] = {"program": "service_end", "arguments": {"value": "x"}}


def assert_refused(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
    assert answer.json()["detail"] == "otto may start sessions only as its own, not as those of 'rich'."
    assert "Only the role `owner` may name another one" in answer.json()["hint"]


def test_session_belongs_to_the_caller_unless_an_owner_names_another(service: Service, owner: httpx.Client) -> None:
    otto = service.client("otto", "operator")
    for named in ({}, {"owner": "otto"}):
        assert otto.post("/v1/sessions", json=BODY | named).json()["owner"] == "otto"
    assert_refused(otto.post("/v1/sessions", json=BODY | {"owner": "rich"}))
    assert [one["owner"] for one in otto.get("/v1/sessions").json()["items"]] == ["otto", "otto"]
    assert owner.post("/v1/sessions", json=BODY | {"owner": "rich"}).json()["owner"] == "rich"


def test_schedule_names_no_other_owner(service: Service) -> None:
    otto, hourly = service.client("otto", "operator"), BODY | {"every": "1h"}
    assert_refused(otto.post("/v1/schedules/s", json=hourly | {"owner": "rich"}))
    assert otto.post("/v1/schedules/s", json=hourly).json()["options"]["owner"] == "otto"


def test_command_line_leaves_the_owner_to_the_service(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_TOKEN", service.token("otto", "operator").token)
    monkeypatch.setenv("PERDURE_BY", "local-user")

    def run(*words: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main(["--store", service.address, *words])
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    assert run("run", "service_end", "value=x", "--id", "a", "--detach")[0] == 0
    assert run("schedules", "add", "s", "service_end", "value=x", "--every", "1h")[0] == 0
    assert json.loads(run("ls", "--json")[1])["owner"] == "otto"
    assert json.loads(run("schedules", "--json")[1])["options"]["owner"] == "otto"
    code, said = run("run", "service_end", "value=x", "--id", "b", "--detach", "--owner", "rich")
    assert (code, "otto may start sessions only as its own, not as those of 'rich'. [not-allowed]" in said) == (1, True)
