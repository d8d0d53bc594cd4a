"""Generated requests to every operation of the document: each answer is one that it declares, whole."""

from __future__ import annotations

import os
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks

from perdure.server import openapi
from perdure.server.examples import parameter_example
from perdure.server.operation import EVENT_STREAM, Operation
from perdure.server.operations import TABLE
from perdure.store.store import Store
from tests.seed import SEED, sample
from tests.server.support.service import PATIENCE, Service
from tests.server.support.world import World

IS_LONG = "PERDURE_SOAK" in os.environ
FEW, MANY, TURNS = 2, 12, 6  # operations take turns: in each run some get many examples, chosen by the seed
CHECKS: Any = [
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]


@schemathesis.serializer("application/zip")
def as_zip(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else b"PK"


NAMED = {one.name: one for one in TABLE}


@pytest.mark.slow
@pytest.mark.databases("sqlite", "postgres")
def test_generated_requests_are_answered_as_documented(store: Store) -> None:
    service = Service(store, requests_per_minute=1_000_000)
    try:
        world, owner = World(service), service.client("olga")
        schema = schemathesis.openapi.from_dict(owner.get("/openapi.json").json())
        many = NAMED if IS_LONG else sample(sorted(NAMED), len(NAMED) // TURNS)
        wrong: list[str] = []
        found: Any
        for found in schema.get_all_operations():
            operation = found.ok()
            if (name := operation.definition.raw.get("operationId")) is None:
                continue  # the pages for monitoring
            own = service.client("olga") if name == "self.revoke" else owner
            _try(NAMED[name], operation, service.address, own, world, MANY if name in many else FEW, wrong)
        assert wrong == []
    finally:
        service.close()


def _try(
    one: Operation, operation: Any, address: str, owner: httpx.Client, world: World, number: int, wrong: list[str]
) -> None:
    """Send some generated requests to one operation."""

    @seed(SEED)
    @settings(
        max_examples=100 if IS_LONG else number, deadline=None, database=None, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(), is_there=st.booleans())
    def send(case: Any, is_there: bool) -> None:
        if is_there:
            case.path_parameters = world.parameters(one)
        headers = {**(case.headers or {}), "Authorization": owner.headers["authorization"]}
        if one.also_streams and not is_there:
            headers.pop("Last-Event-ID", None)
        case.headers = headers
        streams = one.media == EVENT_STREAM or "Last-Event-ID" in headers
        problem = _read_stream(one, case, address, owner) if streams else _validated(case, address)
        if problem is not None:
            wrong.append(f"{one.name}: {problem} {case.path_parameters} {case.query} {case.body!r:.200}")
        if one.name == "policy.freeze":
            owner.post("/v1/policy/thaw", json={})

    send()


def _validated(case: Any, address: str) -> str | None:
    """What is wrong with an answer: its status, media type, headers or body."""
    answer = case.call(base_url=address, timeout=PATIENCE)
    if answer.status_code >= 500 and answer.status_code not in (503, 507):
        return str(answer.status_code)
    try:
        case.validate_response(answer, checks=CHECKS)
    except AssertionError as error:
        return f"{answer.status_code} {error}"
    except BaseExceptionGroup as errors:
        return f"{answer.status_code} {errors.exceptions}"
    return None


def _read_stream(one: Operation, case: Any, address: str, owner: httpx.Client) -> str | None:
    """The same of a stream, which is left after its first line."""
    given = case.as_transport_kwargs(base_url=address)
    asked = {name: given.get(name) for name in ("params", "headers")}
    with owner.stream(given["method"], given["url"], **asked) as answer:
        kind = answer.headers["content-type"].partition(";")[0]
        if answer.status_code == 200:
            first = next(answer.iter_lines())
            return None if (kind, first) == (EVENT_STREAM, "retry: 1000") else f"{kind} {first}"
        declared = case.operation.definition.raw["responses"]
        is_right = str(answer.status_code) in declared and kind == "application/problem+json"
        return None if is_right else f"{answer.status_code} {kind}"


def test_examples_of_the_document_fit_their_types() -> None:
    document = openapi.document(TABLE)
    for one in TABLE:
        documented = document["paths"][openapi.path_of(one)][one.method.lower()]
        if one.answer is not None:
            msgspec.convert(documented["responses"][str(one.status)]["content"][one.media]["example"], one.answer)
        if one.body is not None:
            msgspec.convert(documented["requestBody"]["content"]["application/json"].get("example", {}), one.body)
        if one.query is not None:
            given = {name: parameter_example(one.query, name) for name in one.query.__struct_fields__}
            asked = {
                name: str(value).lower() if value in (True, False) else str(value) for name, value in given.items()
            }
            msgspec.convert(asked, one.query, strict=False)
            shown = {each["name"]: each["example"] for each in documented["parameters"] if "example" in each}
            assert shown == {name: value for name, value in given.items() if name != "after"}


@pytest.mark.databases("sqlite")
def test_pages_for_monitoring_are_answered_as_documented(service: Service, owner: httpx.Client) -> None:
    paths = owner.get("/openapi.json").json()["paths"]
    for path, documented in paths.items():
        if path.startswith("/v1/"):
            continue
        for client, headers in ((owner, {}), (service.with_token(None), {}), (owner, {"Host": "evil.example.org"})):
            answer = client.get(path, headers=headers)
            declared = documented["get"]["responses"][str(answer.status_code)]
            assert answer.headers["content-type"].partition(";")[0] in declared["content"]
            assert set(declared["headers"]) <= {name.title() for name in answer.headers}
