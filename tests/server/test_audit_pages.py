"""Pages of the answers of an audit."""

from __future__ import annotations

import httpx
import pytest

from perdure.server.page import encode_key
from perdure.store.audit.questions import QUESTIONS

FORGED = [encode_key(*parts) for parts in (("x", 1), (1, 1, "x"), ("x", "y", "z"), (1, 2, 3, 4), (1,))]


@pytest.mark.databases("sqlite", "postgres")
def test_keys_of_other_types_are_refused_everywhere(owner: httpx.Client) -> None:
    for name, question in QUESTIONS.items():
        needed = {one: "path:a" if one == "target" else "0123456" for one in question.needed[:1]}
        if needed.keys() & {"session", "effect"}:
            continue
        for key in FORGED:
            refused = owner.get(f"/v1/audit/{name}", params={**needed, "after": key})
            assert (name, refused.status_code, refused.json()["code"]) == (name, 422, "config")
