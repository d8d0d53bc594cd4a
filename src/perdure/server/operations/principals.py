"""Principals and tokens: who may use the store, and with what. Only owners change them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.domain.caller import Verb
from perdure.domain.principal import PrincipalView, Role
from perdure.domain.token import NewToken, TokenView
from perdure.errors import Conflict
from perdure.server.authorization import missing_name
from perdure.server.operation import Body, Context, Ids, Nothing, Operation, Touch
from perdure.server.operations.facts import nothing
from perdure.server.page import Page, PageQuery, page_of
from perdure.store.moves import token


class AddPrincipal(Body, frozen=True):
    """A person or a program. The first one of a store is you, as its owner."""

    name: str
    kind: Literal["person", "program"] = "person"
    roles: list[Role] = msgspec.field(default_factory=list)
    logins: list[str] = msgspec.field(default_factory=list)


class SetPrincipal(Body, frozen=True):
    """The roles that replace the present ones, and logins to add."""

    roles: list[Role] | None = None
    logins: list[str] = msgspec.field(default_factory=list)


class RemovePrincipal(Body, frozen=True):
    """With a login, only that one."""

    login: str | None = None


class CreateToken(Body, frozen=True):
    """Of whom, for what (`*`, `queue:NAME`, `repository:NAME`), and until when."""

    principal: str
    scopes: list[str] = msgspec.field(default_factory=list)
    label: str = ""
    expires: str | float | None = "90d"


class RotateToken(Body, frozen=True):
    """For how long the old one is valid, and until when the new one."""

    overlap: str | float = "24h"
    expires: str | float | None = "90d"


async def listing(context: Context) -> Page[PrincipalView]:
    found = [one async for one in context.runtime.principals()]
    return page_of(found, context.query, lambda one: (one.name,))


async def add(context: Context) -> PrincipalView:
    body: AddPrincipal = context.body
    return await context.runtime.add_principal(
        body.name, kind=body.kind, roles=body.roles, logins=body.logins, by=context.by
    )


async def set_(context: Context) -> PrincipalView:
    body: SetPrincipal = context.body
    return await context.runtime.set_principal(
        context.params["name"], roles=body.roles, logins=body.logins, by=context.by
    )


async def remove(context: Context) -> None:
    await context.runtime.remove_principal(context.params["name"], login=context.body.login, by=context.by)


async def again(context: Context, _: Ids) -> PrincipalView:
    name = context.params.get("name") or context.body.name
    async for one in context.runtime.principals():
        if one.name == name:
            return one
    raise missing_name("principal", name)


async def tokens(context: Context) -> Page[TokenView]:
    found = [one async for one in context.runtime.tokens()]
    return page_of(found, context.query, lambda one: (-one.created_at, one.id))


async def create(context: Context) -> NewToken:
    body: CreateToken = context.body
    return await context.runtime.create_token(
        body.principal, scopes=body.scopes, label=body.label, expires=body.expires, by=context.by
    )


async def rotate(context: Context) -> NewToken:
    body: RotateToken = context.body
    return await context.runtime.rotate_token(
        context.params["id"], overlap=body.overlap, expires=body.expires, by=context.by
    )


async def created(_context: Context, ids: Ids) -> NewToken:
    raise Conflict(
        f"Token {ids['token']} was created, and its text is shown only once.",
        hint="Revoke it, and create another one with a new key.",
    )


async def revoke(context: Context) -> TokenView:
    return await context.runtime.revoke_token(context.params["id"], by=context.by)


async def revoked(context: Context, _: Ids) -> TokenView:
    return await context.store.read(lambda tx: token.view(tx, token.find(tx, context.params["id"])))


PEOPLE: dict[str, Any] = {"method": "POST", "verb": Verb.CHANGE_PRINCIPAL, "touches": Touch.STORE}
TOKENS: dict[str, Any] = {"method": "POST", "verb": Verb.CHANGE_TOKEN, "touches": Touch.STORE}

OPERATIONS = (
    Operation(
        name="principals.list", method="GET", path="/v1/principals", verb=Verb.READ_PRINCIPAL, touches=Touch.STORE,
        handler=listing, answer=Page[PrincipalView], query=PageQuery, summary="People and programs, by name.",
    ),
    Operation(
        name="principals.add", path="/v1/principals", **PEOPLE, handler=add, answer=PrincipalView, body=AddPrincipal,
        status=201, again=again, example={"name": "grace", "roles": ["approver"]},
        summary="Add a person or a program.",
    ),
    Operation(
        name="principals.set", path="/v1/principals/{name}", **PEOPLE, handler=set_, answer=PrincipalView,
        body=SetPrincipal, again=again, example={"roles": ["approver", "operator"]},
        summary="Replace the roles of a principal, and add logins.",
    ),
    Operation(
        name="principals.remove", path="/v1/principals/{name}/remove", **PEOPLE, handler=remove, body=RemovePrincipal,
        again=nothing, example={}, summary="Remove a principal, or one of its logins. The last owner stays.",
    ),
    Operation(
        name="tokens.list", method="GET", path="/v1/tokens", verb=Verb.READ_TOKEN, touches=Touch.STORE,
        handler=tokens, answer=Page[TokenView], query=PageQuery, summary="Tokens without their secrets.",
    ),
    Operation(
        name="tokens.create", path="/v1/tokens", **TOKENS, handler=create, answer=NewToken, body=CreateToken,
        status=201, again=created, made=lambda result: {"token": result.id},
        example={"principal": "ci", "scopes": ["queue:builds"], "label": "build server"},
        summary="Create a token. Its text is in this answer only.",
    ),
    Operation(
        name="tokens.rotate", path="/v1/tokens/{id}/rotate", **TOKENS, handler=rotate, answer=NewToken,
        body=RotateToken, status=201, again=created, made=lambda result: {"token": result.id},
        example={"overlap": "24h"}, summary="Replace a token by a new one with the same scopes.",
    ),
    Operation(
        name="tokens.revoke", path="/v1/tokens/{id}/revoke", **TOKENS, handler=revoke, answer=TokenView,
        body=Nothing, again=revoked, summary="Revoke a token. Its streams end within seconds.",
    ),
)  # fmt: skip
