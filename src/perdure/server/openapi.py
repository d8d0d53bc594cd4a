"""The OpenAPI 3.1 document, made from the table of operations and the types of their bodies and answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from perdure import __version__
from perdure.server.examples import example_of, parameter_example
from perdure.server.operation import EVENT_STREAM, JSON, Operation, Touch
from perdure.server.problem import MEDIA, Problem
from perdure.server.requests.versions import has_version, version_of

REFERENCE = "#/components/schemas/{name}"
MEANINGS = {
    400: "The request is not valid HTTP or JSON.",
    401: "No token, or one that is not valid.",
    403: "The caller may see this, and may not do it.",
    404: "It does not exist, or the caller may not see it.",
    405: "There is no such operation at this path.",
    408: "The body did not come in time.",
    409: "The present state does not allow it, or the same request is being carried out.",
    412: "It has changed since it was read.",
    413: "The body is too large.",
    415: "The body has another type.",
    416: "The range is outside of the content.",
    421: "The request names another host than this service.",
    422: "A value is wrong; nothing was done.",
    429: "Too many requests.",
    503: "The store cannot be reached, or the request took too long.",
    507: "The store is full.",
}
ALWAYS = (400, 401, 403, 404, 413, 415, 421, 422, 429, 503, 507)
CHANGING = (409, 412)
HEADERS: dict[str, Any] = {
    "X-Request-Id": {
        "description": "The id of the request, which the log of the service has too.", "required": True,
        "schema": {"type": "string"},
    },
    "ETag": {"description": "The version of what is shown, for `If-Match`.", "schema": {"type": "string"}},
    "Retry-After": {
        "description": "In how many seconds the request may be sent again.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
}  # fmt: skip
RANGE_HEADERS = {
    "Range": "A range of bytes.",
    "If-Range": "The ETag that the range is of; if it is another one, all bytes are sent.",
    "If-None-Match": "The ETags that the client has.",
}


def _monitoring(summary: str, media: str, schema: dict[str, Any], *, is_open: bool, refusals: Sequence[int]) -> Any:
    given = {"$ref": "#/components/headers/X-Request-Id"}
    problem = {MEDIA: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
    answers: dict[str, Any] = {
        "200": {"description": "Done.", "content": {media: {"schema": schema}}, "headers": {"X-Request-Id": given}}
    }
    for status in refusals:
        answers[str(status)] = {
            "description": MEANINGS[status], "content": problem, "headers": {"X-Request-Id": given}
        }  # fmt: skip
    return {
        "get": {"summary": summary, "tags": ["monitoring"], "responses": answers}
        | ({"security": []} if is_open else {})
    }


_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
MONITORING: dict[str, Any] = {
    "/livez": _monitoring("Whether the process answers.", JSON, _STATUS, is_open=True, refusals=(421,)),
    "/healthz": _monitoring("Whether the store answers.", JSON, _STATUS, is_open=True, refusals=(421, 503)),
    "/readyz": _monitoring("Whether this process takes requests.", JSON, _STATUS, is_open=True, refusals=(421, 503)),
    "/metrics": _monitoring(
        "The numbers of the store, for Prometheus.", "text/plain", {"type": "string"}, is_open=False,
        refusals=(401, 403, 421, 429, 503),
    ),
}  # fmt: skip
DESCRIPTION = (
    "Sessions of AI coding agents that survive crashes. Requests need a bearer token, or come by a Unix socket. Lists "
    "are paged: pass `next` of a page as `after`. A POST may carry `Idempotency-Key`; with the same key and body it is "
    "carried out once, however often it is sent."
)


def document(table: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    types: list[Any] = [Problem]
    for one in table:
        types += [kind for kind in (one.answer, one.body, one.query) if kind is not None]
    _, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    paths: dict[str, Any] = {}
    for one in table:
        paths.setdefault(path_of(one), {})[one.method.lower()] = _operation(one, components)
    paths |= MONITORING
    bearer = {"type": "http", "scheme": "bearer", "description": "A token of `perdure token create`."}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Perdure", "version": __version__, "description": DESCRIPTION, "license": _LICENSE},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [{"name": name} for name in dict.fromkeys([*map(_tag, table), "monitoring"])],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"bearer": bearer}, "headers": HEADERS},
    }


def path_of(one: Operation) -> str:
    """The path of an operation, as the document writes it."""
    return re.sub(r":[a-z]+}", "}", one.path)


_LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}


def _tag(one: Operation) -> str:
    return one.name.partition(".")[0]


def _operation(one: Operation, components: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "description": f"Needs `{one.verb}`" + _WHERE[one.touches],
        "tags": [_tag(one)],
        "parameters": [*_path_parameters(one), *_query_parameters(one, components), *_headers(one)],
        "responses": _responses(one),
    }
    if one.body is not None:
        content: dict[str, Any] = {"schema": _schema(one.body)}
        if one.example is not None:
            content["example"] = one.example
        is_needed = any(field.required for field in msgspec.structs.fields(one.body))
        made["requestBody"] = {"required": is_needed, "content": {JSON: content}}
    elif one.takes != JSON:
        binary = {"schema": {"type": "string", "format": "binary"}}
        made["requestBody"] = {"required": True, "content": {one.takes: binary}}
    return made


_WHERE = {
    Touch.SELF: ".",
    Touch.STORE: " and the scope `*`.",
    Touch.LISTING: "; shows what the scopes cover.",
    Touch.PLACE: " in a scope that covers the queue or repository.",
    Touch.SESSION: " in a scope that covers the session.",
    Touch.EFFECT: " in a scope that covers its session.",
    Touch.APPROVAL: " in a scope that covers its session.",
    Touch.WAIT: " in a scope that covers its session.",
    Touch.ARTIFACT: " in a scope that covers a session that has it.",
    Touch.WORK: " in a scope that covers each session that is named.",
}


def _schema(kind: Any) -> Any:
    (found,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return found


def _path_parameters(one: Operation) -> list[dict[str, Any]]:
    text = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": text} for name in re.findall(r"{([a-z_]+)", one.path)
    ]


def _query_parameters(one: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if one.query is None:
        return []
    whole = components[one.query.__name__]
    needed = set(whole.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": _without_null(schema)}
        | ({} if name == "after" else {"example": parameter_example(one.query, name)})
        for name, schema in whole["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is given or not; it is never null."""
    if "anyOf" in schema:
        kept = [one for one in schema["anyOf"] if one != {"type": "null"}]
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return (kept[0] | rest) if len(kept) == 1 else {"anyOf": kept} | rest
    if isinstance(schema.get("enum"), list):
        return schema | {"enum": [one for one in schema["enum"] if one is not None]}
    return schema


def _headers(one: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if one.also_streams:
        about = "The number of the last event that the client has. The answer is then a stream."
        schema: dict[str, Any] = {"type": "string", "pattern": "^[0-9]{1,15}$"}
        found.append(
            {"name": "Last-Event-ID", "in": "header", "required": False, "description": about, "schema": schema}
        )
    if version_of(one) is not None:
        about = "The ETag of what is changed, as it was read. If it has another one by now, nothing is done."
        schema = {"type": "string", "pattern": r'^(\*|(W/)?"[0-9]{1,18}")$'}
        found.append({"name": "If-Match", "in": "header", "required": False, "description": about, "schema": schema})
    if one.partial:
        found += [
            {"name": name, "in": "header", "required": False, "description": about, "schema": {"type": "string"}}
            for name, about in RANGE_HEADERS.items()
        ]
    if one.method == "POST":
        about = "Carries the request out once, however often it is sent."
        schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[!-~]+$"}
        found.append(
            {"name": "Idempotency-Key", "in": "header", "required": False, "description": about, "schema": schema}
        )
    return found


def _responses(one: Operation) -> dict[str, Any]:
    if one.answer is None and one.media == JSON:
        found: dict[str, Any] = {"204": {"description": "Done."}}
    else:
        schema = {"type": "string"} if one.answer is None else _schema(one.answer)
        if one.media not in (JSON, EVENT_STREAM):
            schema = {"type": "string", "format": "binary"}
        found = {str(one.status): {"description": "Done.", "content": {one.media: {"schema": schema}}}}
        if one.answer is not None:
            found[str(one.status)]["content"][one.media]["example"] = example_of(one.answer)
        if one.also_streams:
            found[str(one.status)]["content"][EVENT_STREAM] = {"schema": {"type": "string"}}
        if one.partial:
            found["206"] = {"description": "The range.", "content": {one.media: {"schema": schema}}}
            found["304"] = {"description": "The client has it: `If-None-Match` names its ETag."}
    for status, answer in found.items():
        answer["headers"] = _headers_of_answer(one, int(status))
    problem = {MEDIA: {"schema": _schema(Problem)}}
    statuses = {
        *ALWAYS,
        *one.refusals,
        *(CHANGING if one.method != "GET" else ()),
        *((409,) if "{" in one.path else ()),
        *((408,) if one.body is not None else ()),
    }
    for status in sorted(statuses):
        found[str(status)] = {
            "description": MEANINGS.get(status, "See the problem."), "content": problem,
            "headers": _headers_of_answer(one, status),
        }  # fmt: skip
    return found


def _headers_of_answer(one: Operation, status: int) -> dict[str, Any]:
    names = ["X-Request-Id"]
    if status < 400 and has_version(one):
        names.append("ETag")
    if status in (409, 429, 503):
        names.append("Retry-After")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
