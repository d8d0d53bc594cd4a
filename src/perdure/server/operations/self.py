"""What the caller is, and the change of its own token."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.caller import Verb
from perdure.domain.token import NewToken, TokenView
from perdure.errors import ConfigError
from perdure.server.operation import Context, Ids, Nothing, Operation, Touch
from perdure.server.operations.principals import RotateToken, created
from perdure.store.moves import token


class SelfView(msgspec.Struct, frozen=True):
    """Who the service takes the caller for, and what it may do. `token` is the id of the token that it uses."""

    name: str
    identity: str
    roles: list[str]
    scopes: list[str]
    verbs: list[str]
    expires_at: int | None
    token: str | None = None


async def get(context: Context) -> SelfView:
    caller = context.caller
    verbs = sorted(verb for verb in Verb if caller.has_role_for(verb))
    return SelfView(
        name=caller.name, identity=caller.identity, roles=sorted(caller.roles), scopes=list(caller.scopes),
        verbs=[str(verb) for verb in verbs], expires_at=caller.expires_at, token=caller.token_id,
    )  # fmt: skip


def own_token(context: Context) -> str:
    """The id of the token that the caller presents."""
    if (id := context.caller.token_id) is None:
        raise ConfigError("You use the service without a token.", hint="Name a token: POST /v1/tokens/{id}/rotate.")
    return id


async def rotate(context: Context) -> NewToken:
    body: RotateToken = context.body
    return await context.runtime.rotate_token(
        own_token(context), overlap=body.overlap, expires=body.expires, by=context.by
    )


async def revoke(context: Context) -> TokenView:
    return await context.runtime.revoke_token(own_token(context), by=context.by)


async def revoked(context: Context, _: Ids) -> TokenView:
    return await context.store.read(lambda tx: token.view(tx, token.get(tx, own_token(context))))


OWN: dict[str, Any] = {"method": "POST", "verb": Verb.CHANGE_SELF, "touches": Touch.SELF}

OPERATIONS = (
    Operation(
        name="self.get", method="GET", path="/v1/self", verb=Verb.READ_SELF, touches=Touch.SELF, handler=get,
        answer=SelfView, summary="Who you are to the service, and what you may do.",
    ),
    Operation(
        name="self.rotate", path="/v1/self/rotate", **OWN, handler=rotate, answer=NewToken, body=RotateToken,
        status=201, again=created, made=lambda result: {"token": result.id}, example={"overlap": "24h"},
        summary="Replace the token that you use by a new one with the same scopes.",
    ),
    Operation(
        name="self.revoke", path="/v1/self/revoke", **OWN, handler=revoke, answer=TokenView, body=Nothing,
        again=revoked, summary="Revoke the token that you use. It is refused from then on.",
    ),
)  # fmt: skip
