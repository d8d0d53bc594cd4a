"""The verbs of the runtime are the methods of its parts."""

from __future__ import annotations

import inspect
import pydoc
import re

import pytest

import perdure
from perdure.runtime.part_method import verbs_of

VERBS = verbs_of(perdure.Runtime)


@pytest.mark.parametrize("name", sorted(VERBS))
async def test_verb_is_the_method_of_its_part(name: str) -> None:
    async with perdure.open("memory:") as rt:
        bound = getattr(rt, name)
        assert (bound.__name__, type(bound.__self__).__name__) == (name, VERBS[name].part)
        assert bound.__func__ is getattr(perdure.Runtime, name)
        assert inspect.getdoc(bound)


def test_help_shows_the_signature_and_the_docstring_of_a_verb() -> None:
    shown = pydoc.plain(pydoc.render_doc(perdure.Runtime))
    assert re.search(r"withdraw\(\s*self,\s*approval_id: 'str',", shown)
    assert "Withdraw an approval, or a request for one, before the effect was dispatched" in shown
    assert "merge(self, name: 'str', *, mark: 'bool' = False) -> 'MergeResult'" in shown
