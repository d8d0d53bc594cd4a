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
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from perdure.client.connection import ServiceCall, encode_body
from perdure.errors import ConfigError
from perdure.runtime import runtime as runtime_module
from perdure.runtime.runtime import Runtime

if TYPE_CHECKING:
    from perdure.client.remote_runtime import RemoteRuntime

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
def _late_types() -> dict[str, Any]:
    """The types of answers that the runtime imports only for type checkers."""
    from perdure.control.branches.files import FileDiff
    from perdure.control.branches.rewind import RewindResult
    from perdure.control.brief import Brief
    from perdure.control.doctor.report import DoctorReport
    from perdure.control.verification import Verification

    return {one.__name__: one for one in (Brief, DoctorReport, FileDiff, RewindResult, Verification)}


@cache
def answer_type(verb: str) -> Any:
    """What a verb returns; of a verb that lists, the type of one item."""
    function = getattr(Runtime, verb)
    only = {"return": function.__annotations__["return"]}
    holder = type("Holder", (), {"__annotations__": only, "__module__": runtime_module.__name__})
    found = get_type_hints(holder, vars(runtime_module), _late_types())["return"]
    return found if is_one(verb) else get_args(found)[0]


def is_one(verb: str) -> bool:
    """Whether a verb returns one thing, and not an iterator."""
    return inspect.iscoroutinefunction(getattr(Runtime, verb))


def call_of(verb: str, signature: inspect.Signature, given: Mapping[str, Any]) -> ServiceCall:
    """The request for a verb with its arguments."""
    request = VERBS[verb]
    rest = {
        name: value
        for name, value in given.items()
        if name not in ("self", RECORDED) and value is not UNSET and value is not signature.parameters[name].default
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


def refuse(verb: str) -> Callable[..., Any]:
    """The verb, where it cannot work."""

    def refused(*_: Any, **__: Any) -> Any:
        raise ConfigError(f"`{verb}` does not work through a service.", hint=REFUSED[verb])

    return refused


def complete(kind: type[RemoteRuntime]) -> None:
    """Give the class every verb of a runtime that it does not define: those of the table as requests."""
    for verb in public_verbs():
        if verb in vars(kind):
            continue
        if verb in VERBS:
            setattr(kind, verb, request_method(verb))
        elif verb in REFUSED:
            setattr(kind, verb, refuse(verb))


def public_verbs() -> list[str]:
    """What users may call on a runtime."""
    public = {name: one for name, one in vars(Runtime).items() if not name.startswith("_")}
    return [name for name, one in public.items() if inspect.isfunction(one) and name not in Runtime._INTERNAL]


def request_method(verb: str) -> Callable[..., Any]:
    """A verb of the runtime as a request."""
    local = getattr(Runtime, verb)
    signature = inspect.signature(local)

    def given(args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        return dict(signature.bind(*args, **named).arguments)

    if is_one(verb):

        @wraps(local)
        async def one(*args: Any, **named: Any) -> Any:
            call = call_of(verb, signature, given(args, named))
            answer = await args[0].connection.ask(call)
            return msgspec.json.decode(answer.content, type=answer_type(verb))

        return one

    @wraps(local)
    def many(*args: Any, **named: Any) -> AsyncIterator[Any]:
        call, runtime = call_of(verb, signature, given(args, named)), args[0]
        found: AsyncIterator[Any] = runtime.connection.listing(call.path, answer_type(verb), call.query)
        return found

    return many
