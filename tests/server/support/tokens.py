"""Tokens of principals, made on the store as an owner makes them."""

from __future__ import annotations

from perdure.domain.principal import Role
from perdure.runtime.runtime import Runtime


async def a_token(runtime: Runtime, role: Role, scopes: tuple[str, ...] = ("*",)) -> str:
    """The text of a new token of a new person with one role."""
    name = f"{role}-{len([one async for one in runtime.principals()])}"
    if name.startswith(f"{role}-0"):
        await runtime.add_principal("first-owner", roles=[Role.OWNER])
    await runtime.add_principal(name, roles=[role])
    return (await runtime.create_token(name, scopes=scopes)).token
