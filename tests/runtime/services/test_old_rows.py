"""What housekeeping forgets."""

from __future__ import annotations

import pytest

from perdure.domain.identity import Identity, acting
from perdure.ids import new_uid
from perdure.runtime.runtime import Runtime
from perdure.runtime.services.housekeeping import ENDED, HOUR, Housekeeping
from perdure.store.moves import access, control_log, principal
from perdure.store.store import Store
from perdure.testing import ManualClock


@pytest.mark.databases("sqlite", "postgres")
async def test_tokens_are_forgotten_ninety_days_after_they_ended(store: Store, clock: ManualClock) -> None:
    runtime = Runtime(store)
    with acting(Identity("token", "olga")):
        store.write_now(principal.put(new_uid(), "olga", by="olga", roles=["owner"], logins=["token:olga"]))
        made = await runtime.create_token("olga", scopes=("*",), expires="1d", by="olga")
    keeper, day = Housekeeping(runtime), 24 * HOUR
    assert made.view.expires_at is not None
    for passed, is_kept in ((2 * day, True), (ENDED - 2 * day, True), (2 * day, False)):
        clock.advance(seconds=passed // 1_000_000)
        await keeper.look()
        assert bool([one async for one in runtime.tokens()]) is is_kept


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.parametrize(("keep", "left"), [('keep = "30d"', 1), ("", 2)])
async def test_reads_are_forgotten_when_the_policy_says(store: Store, clock: ManualClock, keep: str, left: int) -> None:
    runtime = Runtime(store)
    await runtime.set_policy(f'default = "allow"\n[log_access]\nexport = true\n{keep}\n', because="a test")
    store.write_now(access.record(identity="token:ada", action="export"))
    clock.advance(days=31)
    store.write_now(access.record(identity="token:grace", action="export"))
    await Housekeeping(runtime).look()
    assert store.read_now(access.count, clock.now() + 1) == left
    forgotten = store.read_now(lambda tx: list(control_log.listing(tx, kind="access.forgotten")))
    assert len(forgotten) == 2 - left
