"""A job of cron that may be started twice, killed, or started late.

    15 2 * * *  cd /srv/report && .venv/bin/python nightly_report.py        in the crontab

The day is the id of the session. A second start of the same day continues that session or returns its result; it never
sends a second report. The exit code: 0 sent, 3 a person must answer, 4 another process runs it.
"""

import os
import sys
from datetime import UTC, datetime

import httpx

import perdure
from perdure import Call, Session, program, tool


def count_orders(day: str) -> int:
    print(f"counting the orders of {day}", flush=True)
    return 42


@tool(replay="idempotent", safe_errors=(httpx.ConnectError,))
def send_report(call: Call, day: str, orders: int) -> None:
    sent = {"day": day, "orders": orders}
    httpx.post(os.environ["REPORT_URL"], json=sent, headers={"Idempotency-Key": call.key}).raise_for_status()


@program
async def nightly_report(s: Session, day: str) -> str:
    orders = await s.step("count", count_orders, day)
    await s.do(send_report, day=day, orders=orders)
    return f"{day}: {orders} orders"


def main(day: str, store: str | None) -> int:
    try:
        print(perdure.run(nightly_report.bind(day=day), id=f"report-{day}", store=store))
    except perdure.SessionWaiting as waiting:
        print(waiting, file=sys.stderr)
        return 3
    except perdure.LeaseHeld as held:
        print(held, file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    today = datetime.now(UTC).date().isoformat()
    sys.exit(main(os.environ.get("REPORT_DAY", today), os.environ.get("REPORT_STORE")))
