"""Tests of a durable program, as you would write them for your own: `pytest test_payment.py`."""

import asyncio
from pathlib import Path

import payment
import pytest

import perdure
from perdure import Session, program
from perdure.testing import ManualClock, Sink, crash_sweep


def test_order_is_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sink() as sink:  # an HTTP service in its own process, which writes down what it receives
        monkeypatch.setenv("PAYMENTS_URL", sink.url)
        paid = perdure.run(payment.pay_order.bind("ada", 4200), store=tmp_path / "test.db")
        assert paid.status == "paid"
        assert [one["body"] for one in sink.kept()] == [{"customer": "ada", "cents": 4200}]


def test_order_is_paid_once_whenever_the_process_is_killed(tmp_path: Path) -> None:
    with Sink() as sink:
        report = crash_sweep(
            payment.pay_order.bind("ada", 4200),
            app=payment,
            sink=sink,
            store=tmp_path,
            environment={"PAYMENTS_URL": "{sink}"},
        )
    assert report.ok, report


@program
async def remind(s: Session) -> str:
    await s.sleep(days=3)
    return "reminded"


def test_reminder_is_sent_after_three_days(tmp_path: Path) -> None:
    async def three_days() -> list[str]:
        clock = ManualClock()  # time passes only when the test says so
        async with perdure.open(tmp_path / "test.db", clock=clock) as runtime:
            session = await runtime.start(remind.bind())
            waits = (await runtime.run(session.id)).status
            clock.advance(days=3)
            return [waits, (await runtime.run(session.id)).result]

    assert asyncio.run(three_days()) == ["waiting", "reminded"]
