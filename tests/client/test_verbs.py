"""The table of verbs, compared with the runtime and with the operations of the service."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec
import pytest

import perdure
from perdure import errors
from perdure.client.problems import error_of
from perdure.client.remote_runtime import RemoteRuntime
from perdure.client.verbs import RECORDED, REFUSED, UNSENT, VERBS, answer_type
from perdure.errors import ConfigError, PerdureError, StoreUnavailable
from perdure.runtime.part_method import verbs_of
from perdure.runtime.runtime import Runtime
from perdure.server.operation import Operation
from perdure.server.operations import TABLE
from perdure.server.page import Page
from perdure.server.problem import answer, status_of

OWN = {
    "add_schedule", "audit_feed", "audit_head", "audit_report", "remove_notification_channel", "retry_notifications",
    "stream", "archive_all", "artifact", "audit", "audit_questions", "backfill", "complete",
    "events", "export", "failed", "forget_fact", "import_", "policy_versions", "remove_order",
    "remove_principal", "remove_schedule", "result", "result_of", "retry_all", "revoke_token", "rotate_token",
    "run", "set_policy", "start", "start_many", "verify_fact",
}  # fmt: skip
KINDS = sorted(
    (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, PerdureError)),
    key=lambda kind: kind.__name__,
)


def operation_of(verb: str) -> Operation:
    """The operation that the request of a verb reaches."""
    request = VERBS[verb]
    pattern = re.sub(r"{[a-z_]+}", "{}", request.path)
    found = [one for one in TABLE if (one.method, re.sub(r"{[a-z_:]+}", "{}", one.path)) == (request.method, pattern)]
    assert len(found) == 1, (verb, request)
    return found[0]


@pytest.fixture
def remote() -> perdure.Runtime:
    """A runtime over a service that no request reaches."""
    return perdure.connect("http://127.0.0.1:9", "prd_token", patience=0)


def test_every_verb_that_is_not_asked_is_defined_or_refused() -> None:
    assert sorted([*VERBS, *REFUSED, *OWN]) == sorted(verbs_of(Runtime))
    assert OWN - vars(RemoteRuntime).keys() == set()


@pytest.mark.parametrize("verb", sorted(REFUSED))
async def test_verb_that_needs_the_store_is_refused(remote: perdure.Runtime, verb: str) -> None:
    with pytest.raises(ConfigError, match=f"`{verb}` does not work through a service") as refused:
        await getattr(remote, verb)()
    assert refused.value.hint == REFUSED[verb]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_operation_takes_each_parameter_and_returns_what_the_verb_returns(verb: str) -> None:
    operation = operation_of(verb)
    known = {name for kind in (operation.body, operation.query) if kind for name in kind.__struct_fields__}
    given = [name for name in inspect.signature(getattr(Runtime, verb)).parameters if name not in ("self", RECORDED)]
    in_path = [name for name in given if f"{{{name}}}" in VERBS[verb].path]
    assert sorted(set(given) - set(in_path) - known - UNSENT.get(verb, set())) == []
    kind = answer_type(verbs_of(Runtime)[verb])
    returned = operation.answer
    page: Any = Page
    assert returned in (kind, page[kind]) or page[kind] in getattr(returned, "__orig_bases__", ())


@pytest.mark.parametrize("verb", sorted(VERBS))
async def test_signature_is_that_of_the_runtime(remote: perdure.Runtime, verb: str) -> None:
    async with perdure.open("memory:") as local:
        assert inspect.signature(getattr(remote, verb)) == inspect.signature(getattr(local, verb))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_arrives_as_the_same_class(kind: type[PerdureError]) -> None:
    given = kind("What happened.", hint="What to do.")
    sent = answer(given, "request-1")
    found = error_of(status_of(given), bytes(sent.body))
    assert (type(found), found.message, found.hint, found.retry) == (kind, given.message, given.hint, given.retry)


@pytest.mark.parametrize("content", [b"<html>502</html>", b"", b"[]", b'{"code": 1}', b"\xff"])
def test_answer_of_something_else_is_no_answer_of_the_service(content: bytes) -> None:
    found = error_of(502, content)
    assert isinstance(found, StoreUnavailable)
    assert "status 502" in found.message


def test_unknown_code_of_a_newer_service_is_kept() -> None:
    found = error_of(409, msgspec.json.encode({"code": "of-tomorrow", "detail": "New.", "hint": "Upgrade."}))
    assert (type(found), found.code, found.message, found.hint) == (PerdureError, "of-tomorrow", "New.", "Upgrade.")
