"""Programs that receive messages and ask for approval, for processes that are killed."""

from __future__ import annotations

from dataclasses import dataclass

from perdure import Session, program


@dataclass
class Order:
    item: str
    count: int


def describe(order: Order) -> str:
    return f"{order.count} {order.item}"


@program
async def takes_orders(s: Session, number: int) -> list[str]:
    taken = []
    for _ in range(number):
        order = await s.receive(Order)
        taken.append(await s.step("take", describe, order))
    return taken


@program
async def asks_for_approval(s: Session) -> str:
    return await s.approve("Deploy", quorum=1)
