"""Programs that are only read: what may differ between two runs, and the same inside steps."""

from __future__ import annotations

import datetime
import os
import random
import uuid

from perdure import Session


async def suspicious(s: Session) -> list[str]:
    day = str(datetime.date.today())  # noqa: DTZ011 - it is the mistake
    name = str(uuid.uuid4())
    number = random.random()
    names = {"a", "b"}
    found = [one.upper() for one in names]
    return [day, name, str(number), *found, *os.listdir(".")]


async def unsuspicious(s: Session) -> list[str]:
    names = await s.step("names", lambda: os.listdir("."))
    return [str(await s.now()), str(await s.uuid()), *sorted({*names})]
