"""The verbs of a runtime as requests to a service, as data. No verb is written twice: names, parameters and types are
those of `Runtime`; a row says only where the request goes.

A parameter that the path names is put there. The others are the query of a GET, or the body of a POST, under their own
names; what has its default is left out. `by` is never sent: the service records who the token belongs to.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache, wraps
from types import MappingProxyType
from typing import Any, NamedTuple, get_args, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from perdure.client.connection import ServiceCall, ServiceConnection, encode_body
from perdure.errors import ConfigError
from perdure.runtime.part_method import PartMethod

RECORDED = "by"


class VerbRoute(NamedTuple):
    """Where a verb is asked for; `query` names parameters that a POST has in its query."""

    method: str
    path: str
    query: frozenset[str] = frozenset()


OF_SESSION = frozenset({"session"})


def _of_session(*names: str, **others: str) -> dict[str, VerbRoute]:
    verbs = {name: name.replace("_", "-") for name in names} | others
    return {verb: VerbRoute("POST", f"/v1/sessions/{{name}}/{word}") for verb, word in verbs.items()}


VERBS: Mapping[str, VerbRoute] = MappingProxyType({
    "sessions": VerbRoute("GET", "/v1/sessions"),
    "get": VerbRoute("GET", "/v1/sessions/{name}"),
    "recovery_plan": VerbRoute("GET", "/v1/sessions/{name}/plan"),
    "state_at": VerbRoute("GET", "/v1/sessions/{name}/state"),
    "brief": VerbRoute("GET", "/v1/sessions/{name}/brief"),
    "diff": VerbRoute("GET", "/v1/sessions/{name}/diff"),
    "removal": VerbRoute("GET", "/v1/sessions/{name}/removal"),
    **_of_session(
        "send", "resume", "cancel", "pause", "interrupt", "rename", "retry", "archive", "unpin", "remove", "fork",
        "rewind", close_session="close", set_model="model",
    ),
    "search": VerbRoute("GET", "/v1/search"),
    "effects": VerbRoute("GET", "/v1/effects"),
    "effect": VerbRoute("GET", "/v1/effects/{effect_id}"),
    "settle": VerbRoute("POST", "/v1/effects/{effect_id}/settle", OF_SESSION),
    "ask_undo": VerbRoute("POST", "/v1/effects/{effect_id}/undo", OF_SESSION),
    "undo": VerbRoute("POST", "/v1/effects/{effect_id}/undo", OF_SESSION),
    "approvals": VerbRoute("GET", "/v1/approvals"),
    "approve": VerbRoute("POST", "/v1/approvals/{approval_id}/approve", OF_SESSION),
    "deny": VerbRoute("POST", "/v1/approvals/{approval_id}/deny", OF_SESSION),
    "withdraw": VerbRoute("POST", "/v1/approvals/{approval_id}/withdraw", OF_SESSION),
    "answer": VerbRoute("POST", "/v1/waits/{wait_id}/answer", OF_SESSION),
    "tasks": VerbRoute("GET", "/v1/sessions/{session}/tasks"),
    "add_task": VerbRoute("POST", "/v1/sessions/{session}/tasks"),
    "change_task": VerbRoute("POST", "/v1/sessions/{session}/tasks/{id}"),
    "decisions": VerbRoute("GET", "/v1/decisions"),
    "settle_decision": VerbRoute("POST", "/v1/sessions/{session}/decisions/{id}/settle"),
    "facts": VerbRoute("GET", "/v1/facts"),
    "set_fact": VerbRoute("POST", "/v1/facts"),
    "orders": VerbRoute("GET", "/v1/orders"),
    "add_order": VerbRoute("POST", "/v1/orders"),
    "artifacts": VerbRoute("GET", "/v1/artifacts"),
    "queues": VerbRoute("GET", "/v1/queues"),
    "queue_latency": VerbRoute("GET", "/v1/queues/{name}/latency"),
    "set_queue": VerbRoute("POST", "/v1/queues/{name}"),
    "rate_limits": VerbRoute("GET", "/v1/rate-limits"),
    "set_rate_limit": VerbRoute("POST", "/v1/rate-limits/{name}"),
    "schedules": VerbRoute("GET", "/v1/schedules"),
    "pause_schedule": VerbRoute("POST", "/v1/schedules/{name}/pause"),
    "resume_schedule": VerbRoute("POST", "/v1/schedules/{name}/resume"),
    "trigger_schedule": VerbRoute("POST", "/v1/schedules/{name}/trigger"),
    "exemptions": VerbRoute("GET", "/v1/exemptions"),
    "exemption": VerbRoute("GET", "/v1/exemptions/{id}"),
    "exemption_uses": VerbRoute("GET", "/v1/exemptions/{id}/uses"),
    "grant_exemption": VerbRoute("POST", "/v1/exemptions"),
    "revoke_exemption": VerbRoute("POST", "/v1/exemptions/{id}/revoke"),
    "get_policy": VerbRoute("GET", "/v1/policy"),
    "check_policy": VerbRoute("POST", "/v1/policy/check"),
    "explain_policy": VerbRoute("POST", "/v1/policy/explain"),
    "freeze_policy": VerbRoute("POST", "/v1/policy/freeze"),
    "thaw_policy": VerbRoute("POST", "/v1/policy/thaw"),
    "workers": VerbRoute("GET", "/v1/workers"),
    "notifications": VerbRoute("GET", "/v1/notifications"),
    "notification_channels": VerbRoute("GET", "/v1/notification-channels"),
    "test_notification": VerbRoute("POST", "/v1/notification-channels/{channel}/test"),
    "doctor": VerbRoute("GET", "/v1/doctor"),
    "verify": VerbRoute("GET", "/v1/verify"),
    "principals": VerbRoute("GET", "/v1/principals"),
    "add_principal": VerbRoute("POST", "/v1/principals"),
    "set_principal": VerbRoute("POST", "/v1/principals/{name}"),
    "tokens": VerbRoute("GET", "/v1/tokens"),
    "create_token": VerbRoute("POST", "/v1/tokens"),
})  # fmt: skip
# Verbs that need the store, the files or the processes themselves, with what to do instead.
REFUSED: Mapping[str, str] = MappingProxyType({
    "plan_rewind": "Use it on the machine that has the folder.",
    "rewind_in_place": "Use it on the machine that has the folder.",
    "merge": "Use it on the machine that has the folder.",
    "prune": "Use it on the machine that has the files.",
    "roles": "Use it with the address of the database.",
    "apply_roles": "Use it with the address of the database.",
    "audit_verify": "It recomputes every log from the database: use it with the address of the database.",
})  # fmt: skip
# Parameters that a service does not take.
UNSENT: Mapping[str, frozenset[str]] = MappingProxyType({"fork": frozenset({"lines"}), "effects": frozenset({"reach"})})


@cache
def answer_type(verb: PartMethod[..., Any]) -> Any:
    """What a verb returns; of a verb that lists, the type of one item."""
    found = get_type_hints(verb.method)["return"]
    return found if is_one(verb) else get_args(found)[0]


def is_one(verb: PartMethod[..., Any]) -> bool:
    """Whether a verb returns one thing, and not an iterator."""
    return inspect.iscoroutinefunction(verb.method)


def call_of(verb: str, signature: inspect.Signature, given: Mapping[str, Any]) -> ServiceCall:
    """The request for a verb with its arguments."""
    request = VERBS[verb]
    rest = {
        name: value
        for name, value in given.items()
        if name != RECORDED and value is not UNSET and value is not signature.parameters[name].default
    }
    if wrong := sorted(UNSENT.get(verb, frozenset()) & rest.keys()):
        raise ConfigError(f"`{wrong[0]}` of `{verb}` does not work through a service.", hint="Use it on the store.")
    path = request.path
    for name in list(rest):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", segment(rest.pop(name)))
    in_query = set(rest) if request.method == "GET" else request.query & rest.keys()
    query = {name: text_of(value) for name in sorted(in_query) if (value := rest.pop(name)) is not None}
    return ServiceCall(request.method, path, query, None if request.method == "GET" else encode_body(rest))


def segment(name: Any) -> str:
    """A name as a segment of a path."""
    text = str(name)
    if text in ("", ".", ".."):
        raise ConfigError(f"{text!r} is not a name.", hint="Give an id, or a unique prefix of one.")
    return quote(text, safe="")


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value.value if isinstance(value, Enum) else value)


def request_of(verb: PartMethod[..., Any], connection: ServiceConnection) -> Callable[..., Any]:
    """A verb as a request to a service; one that cannot work there is refused when it is called."""
    signature = inspect.signature(verb.method)
    unbound = signature.replace(parameters=list(signature.parameters.values())[1:])

    def call(args: tuple[Any, ...], named: dict[str, Any]) -> ServiceCall:
        if verb.name in REFUSED:
            raise ConfigError(f"`{verb.name}` does not work through a service.", hint=REFUSED[verb.name])
        return call_of(verb.name, unbound, unbound.bind(*args, **named).arguments)

    async def one(*args: Any, **named: Any) -> Any:
        answer = await connection.ask(call(args, named))
        return msgspec.json.decode(answer.content, type=answer_type(verb))

    def many(*args: Any, **named: Any) -> AsyncIterator[Any]:
        request = call(args, named)
        found: AsyncIterator[Any] = connection.listing(request.path, answer_type(verb), request.query)
        return found

    bound = wraps(verb.method)(one if is_one(verb) else many)
    bound.__signature__ = unbound  # type: ignore[attr-defined]  # without the `self` of the part
    return bound
