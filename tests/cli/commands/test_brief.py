"""`perdure brief` as a person reads it and as another agent starts from it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

import perdure
from perdure import Session, program, tool
from perdure.cli.text.brief import escaped, spanned
from perdure.store.moves import fact, session
from perdure.store.store import open_store
from tests.cli.support.terminal import PROGRAMS_FILE, Terminal

HOSTILE = "# *x*\x1b[2J\n- [y](http://z) `` <b> </b> -->\u202e"
VARYING = [(r"\b\d+s ago", "… ago"), (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "…"), (r"\ba-[0-9a-f]{16}\b", "a-…")]
GOLDEN = """\
brief of session talk, as of event {number}, … ago
  agent, waiting, in {folder}/work

goal
  Translate a.txt, and tell.

standing orders
  style: plain words (… ago)

decisions, those without an outcome first
  say it in Spanish, because ada asked for it; then edit a.txt. INCOMPLETE: no outcome is recorded (… ago)

open tasks; 1 is done
  tell (open)

in doubt, or waiting for a person
  approval, asked … ago: the gate merge holds back user_merge(pr=7) (not by ada, who requested it; expires in 23h 59m)
    perdure approve a-… --store {store}
    perdure deny a-… --store {store}

done outside, the newest first
  edit_file(path="a.txt", old="one", new="uno", all=false): Edited a.txt. (… ago)

changed since it last moved
  a.txt changed since it was read
"""


def named(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def agent_asks(terminal: Terminal, store: str) -> Path:
    """An agent that has edited a file and waits for approval; then another process changed the file."""
    work = terminal.folder / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    done = [{"title": "edit", "state": "done"}, {"title": "tell"}]
    script = [
        {"calls": [named("plan", tasks=done), named("read_file", path="a.txt")]},
        {"calls": [named("decide", decision="say it in Spanish", because="ada asked for it", then="edit a.txt")]},
        {"calls": [named("edit_file", path="a.txt", old="one", new="uno")]},
        {"calls": [named("user_merge", pr=7)]},
    ]
    (terminal.folder / "script.json").write_text(json.dumps(script))
    tools = [word for name in ("plan", "decide", "read_file", "edit_file", "user_merge") for word in ("--tool", name)]
    options = ["--model", "scripted:script.json", "--repo", "work", "--id", "talk", "--owner", "ada", *tools]
    begun = terminal("run", "Translate a.txt, and tell.", *options, "--app", PROGRAMS_FILE, "--store", store)
    assert begun.code == 3, begun.err
    with open_store(store) as opened:
        uid = opened.read_now(session.find, "talk").uid
        opened.write_now(fact.remember(uid, "ada", "orders", "style", "plain words"))
    (work / "a.txt").write_text("eins\n")
    return work


@pytest.mark.databases("sqlite", "postgres")
def test_brief_as_text(terminal: Terminal, target: str) -> None:
    agent_asks(terminal, target)
    said = terminal("brief", "talk", "--store", target)
    as_json = terminal("brief", "talk", "--store", target, "--json").json
    shown = said.out
    for pattern, name in VARYING:
        shown = re.sub(pattern, name, shown)
    store = re.search(r"--store (\S+)", shown)
    assert store is not None
    assert (said.code, said.err) == (0, "")
    assert shown == GOLDEN.format(number=as_json["number"], folder=terminal.folder, store=store[1])
    assert as_json["changed"] == ["a.txt changed since it was read"]


@pytest.mark.slow
def test_brief_file_is_replaced_only_by_a_brief(terminal: Terminal) -> None:
    agent_asks(terminal, "perdure.db")
    page = terminal.folder / "AGENTS.md"
    line = ("brief", "talk", "--format", "agents-md", "--to", "AGENTS.md")
    assert terminal(*line).out.startswith("The brief of session talk as of event ")
    first = page.read_text()
    assert first.startswith("<!-- perdure brief -->\n# Brief of session talk\n\nAs of event ")
    assert "ago" not in first
    assert terminal("send", "talk", "hurry").code == 0
    assert terminal(*line).code == 0
    numbers = [int(found[1]) for text in (first, page.read_text()) if (found := re.search(r"event (\d+)", text))]
    assert numbers[0] < numbers[1]
    assert [path.name for path in terminal.folder.iterdir() if "brief" in path.name] == []
    page.write_text("# Mine\n")
    refused = terminal(*line)
    assert (refused.code, "is not a brief" in refused.err, page.read_text()) == (1, True, "# Mine\n")
    page.unlink()
    page.symlink_to("elsewhere.md")
    assert terminal(*line).code == 1


def test_text_of_others_stays_text_in_markdown(terminal: Terminal) -> None:
    assert terminal("run", "user_talk", "--id", "one", "--title", HOSTILE, "--app", PROGRAMS_FILE).code == 3
    with open_store("perdure.db") as opened:
        uid = opened.read_now(session.find, "one").uid
        opened.write_now(fact.remember(uid, "ada", "orders", "o", HOSTILE))
        opened.write_now(fact.remember(uid, "ada", f"session:{uid}", "f", {"x": HOSTILE}))
    for form in ("text", "agents-md"):
        said = terminal("brief", "one", "--format", form).out
        assert all(one.isprintable() or one == "\n" for one in said), said
        if form == "agents-md":
            outside = re.sub(r"^    .*$", "", said, flags=re.MULTILINE).replace("<!-- perdure brief -->", "")
            assert re.findall(r"(?<!\\)[<\[]", outside) == []
            assert [line for line in outside.splitlines() if re.match(r"\s*- +([#>=+-]|\d+[.)])", line)] == []


@tool
def brief_deploy(to: str) -> str:
    return f"deployed to {to}"


@program
async def brief_full(s: Session) -> None:
    for nth in range(30):
        await s.decide(f"decision {nth}", because="it is so")
        await s.task(f"task {nth}")
        await s.remember(f"fact-{nth}", "x" * 500)
        await s.remember(f"order-{nth}", "y", scope="orders")
        await s.do(brief_deploy, to=f"place {nth}")
    async with asyncio.TaskGroup() as group:
        for nth in range(10):
            group.create_task(_ask(s, nth))


async def _ask(s: Session, nth: int) -> None:
    async with s.scope(f"question-{nth}"):
        await s.ask(f"Question {nth}?", choices=[str(one) for one in range(20)])


def test_brief_stays_short(terminal: Terminal) -> None:
    async def fill() -> None:
        async with perdure.open("perdure.db") as runtime:
            title = "\n".join(f"line {nth}" for nth in range(50))
            await runtime.start(brief_full.bind(), id="full", title=title)
            await runtime.run("full")

    asyncio.run(fill())
    for form in ("text", "agents-md"):
        lines = terminal("brief", "full", "--format", form).out.splitlines()
        assert 60 < len(lines) <= 120
        assert max(map(len, lines)) < 1000


@pytest.mark.parametrize(
    ("given", "made"),
    [("# x", r"\# x"), ("- x", r"\- x"), ("12. x", r"12\. x"), ("1) x", r"1\) x"), ("=== ", r"\=== "),
     ("a*b_c", r"a\*b\_c"), ("![i](u)", r"!\[i\](u)"), ("<b>&amp;", r"\<b\>\&amp;"), ("a - b 1.", "a - b 1.")],
)  # fmt: skip
def test_escaped_text_has_no_markdown(given: str, made: str) -> None:
    assert escaped(given) == made


@pytest.mark.parametrize(("given", "made"), [("x", "`x`"), ("a`b", "``a`b``"), ("``", "``` `` ```")])
def test_inline_code_may_contain_backticks(given: str, made: str) -> None:
    assert spanned(given) == made
