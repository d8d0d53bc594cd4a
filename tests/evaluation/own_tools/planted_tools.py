"""A shop with the ten mistakes, one in each tool or program, and the same without them. Examined by other processes."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from typing import Any

from perdure import Call, Outcome, Session, program, tool
from perdure.testing import SinkClient, SinkError
from perdure.testing.sink import content_id


def send(key: str | None, body: Any, **more: Any) -> str:
    return str(SinkClient.here().post(key, body, **more)["id"])


def there(key: str) -> bool:
    return bool(SinkClient.here().find(key=key))


@tool(replay="idempotent", name="shop_good_keyed")
def good_keyed(call: Call, order: int) -> str:
    return send(call.key, {"order": order})


@tool(replay="probe", name="shop_good_probe")
def good_probe(call: Call, order: int) -> str:
    return send(None, {"order": order}, marker=call.key)


@good_probe.probe
def _(call: Call, order: int) -> Outcome:
    return Outcome.happened("found") if there(call.key) else Outcome.absent()


@tool(replay="compensate", name="shop_good_undo")
def good_undo(call: Call, order: int) -> str:
    return send(None, {"order": order}, marker=call.key)


@good_undo.undo
def _(call: Call, result: str | None, order: int) -> None:
    SinkClient.here().delete(key=call.undoes)


@tool(name="shop_good_escalate")
def good_escalate(order: int) -> str:
    return send(None, {"order": order})


@tool(replay="pure", name="shop_wrong_rule")
def wrong_rule(order: int) -> str:
    return send(None, {"order": order})


@tool(replay="probe", name="shop_lying_probe")
def lying_probe(call: Call, order: int) -> str:
    return send(None, {"order": order}, marker=call.key)


@lying_probe.probe
def _(call: Call, order: int) -> Outcome:
    return Outcome.absent()


@tool(replay="compensate", name="shop_fragile_undo")
def fragile_undo(order: int) -> str:
    return send(None, {"order": order})


@fragile_undo.undo
def _(call: Call, result: str | None, order: int) -> None:
    """It takes back the order, and then again whatever is there: the second time, it fails."""
    if not SinkClient.here().delete(id=content_id("effects", {"order": order})):
        raise RuntimeError("there is no such order")


@tool(replay="idempotent", name="shop_no_key")
def no_key(order: int) -> str:
    return send(None, {"order": order})


@tool(safe_errors=(SinkError,), name="shop_wide_safe_errors")
def wide_safe_errors(order: int) -> str:
    """An error of the service proves nothing: it may have stored the order."""
    return send(None, {"order": order})


@tool(name="shop_two_effects")
def two_effects(order: int) -> str:
    send(None, {"order": order})
    return send(None, {"invoice": order})


def mail(order: int) -> str:
    return send(None, {"mail": order})


@program
async def shop_effect_in_a_step(s: Session, order: int) -> None:
    await s.do(good_keyed, order=order)
    await s.step("mail", mail, order)


@program
async def shop_effect_in_plain_code(s: Session, order: int) -> None:
    mail(order)
    await s.do(good_keyed, order=order)


@program
async def shop_random_order_number(s: Session) -> None:
    await s.do(good_keyed, order=random.randrange(1 << 40))


@program
async def shop_unsorted_orders(s: Session) -> None:
    names = {"ada", "grace"}
    for name in names:
        await s.do(good_keyed, order=len(name) * 1000 + ord(name[0]))


@program
async def shop_sound(s: Session, orders: list[int]) -> None:
    for order in sorted(orders):
        await s.do(good_probe, order=order)


@tool(name="shop_far_away")
def far_away(order: int) -> None:
    socket.create_connection(("shop.example", 443), timeout=5).close()


@tool(name="shop_swallowed_error")
def swallowed_error(order: int) -> None:
    try:
        send(None, {"order": order})
    except Exception:
        return


@tool(name="shop_silent")
def silent(order: int) -> int:
    return order


def shelf() -> list[str]:
    """The probe of the user: what is on the shelf."""
    return sorted(path.name for path in Path(os.environ["SHOP_SHELF"]).iterdir())


def put(order: int) -> None:
    place = Path(os.environ["SHOP_SHELF"])
    place.joinpath(f"{order}-{len(list(place.iterdir()))}").touch(exist_ok=False)


@tool(name="shop_shelf_escalate")
def shelf_escalate(order: int) -> None:
    put(order)


@tool(replay="pure", name="shop_shelf_pure")
def shelf_pure(order: int) -> None:
    put(order)


@tool(name="shop_broken")
def broken(order: int) -> None:
    raise RuntimeError("the shop is closed")
