"""Charge a customer once, at a service that honours idempotency keys, as Stripe does.

    PAYMENTS_URL=https://payments.example.org python payment.py order-17 ada 4200

Kill it at any time and run it again. `call.key` is the same in every attempt of this call, so the service recognizes a
second request. After `key_ttl` the service may have forgotten the key; Perdure then asks a person instead of repeating.
"""

import os
import sys
from dataclasses import dataclass

import httpx

import perdure
from perdure import Call, Session, program, tool


@dataclass
class Charge:
    id: str
    status: str  # "paid" or "declined"


@tool(replay="idempotent", key_ttl="24h", safe_errors=(httpx.ConnectError,), targets=("customer:{customer}",))
async def charge_customer(call: Call, customer: str, cents: int) -> Charge:
    async with httpx.AsyncClient(base_url=os.environ["PAYMENTS_URL"], timeout=30) as service:
        sent = {"customer": customer, "cents": cents}
        answer = await service.post("charges", json=sent, headers={"Idempotency-Key": call.key})
    if answer.status_code == 402:  # a declined card is an outcome, not an error
        return Charge(answer.json()["id"], "declined")
    answer.raise_for_status()  # no proof: the charge may exist, so Perdure asks again with the same key
    return Charge(answer.json()["id"], "paid")


@program
async def pay_order(s: Session, customer: str, cents: int) -> Charge:
    return await s.do(charge_customer, customer=customer, cents=cents)


if __name__ == "__main__":
    order, who, amount = sys.argv[1:]
    print(perdure.run(pay_order.bind(customer=who, cents=int(amount)), id=order))
