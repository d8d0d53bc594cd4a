"""Opens the folder of a session, and performs what a person ordered: both are effects of the session."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec

import perdure.agent.files.rewind.folder_rewind  # noqa: F401 - its program is known wherever agents are
from perdure.agent.call_report import CallReport, not_started, of_effect
from perdure.agent.files.branch import ORDERS, MergeReport, open_worktree
from perdure.agent.files.branch_merge import prepare_merge, record_merge
from perdure.agent.git import command_line
from perdure.agent.history.state_reader import AgentRecords
from perdure.agent.history.transcript import Line, State
from perdure.agent.ledger import AgentLedger, line_of_effects, placed
from perdure.domain.effect import EffectState
from perdure.errors import ConfigError, PerdureError
from perdure.ids import decode, digest, encode
from perdure.runtime.ledger.errors import failure
from perdure.runtime.ledger.host import OpenDoubt


async def open_folder(ledger: AgentLedger, records: AgentRecords) -> None:
    """Give a branch its folder before anything runs there."""
    folder = records.folder
    if folder is None or ledger.workspace is not None:
        return
    run = ledger.run
    if ledger.home is None or folder.branch != run.session.uid:
        return  # it cannot have a folder here: its tools report that, and the rest works
    arguments = {
        "repository": folder.repository, "home": str(ledger.home), "branch": folder.branch,
        "commit": await asyncio.to_thread(_commit_of, Path(folder.repository), records.state),
        "snapshot": records.state.snapshot,
    }  # fmt: skip
    position = ["worktree", run.session.uid]
    with run.active():
        done = await run.read(placed, run.session.uid, 0)
        if (first := done.get(encode(position))) is not None and first.state == EffectState.ACKNOWLEDGED:
            position.append(digest(str(ledger.home))[:16])  # that one is elsewhere: the session was moved here
        there = done.get(encode(position))
        effect = await ledger.perform(open_worktree, arguments, position, there)
    if effect.state != "acknowledged":
        raise failure(effect)
    ledger.workspace = ledger.enter(Path(decode(await ledger.result_of(effect))))


def _commit_of(repository: Path, state: State) -> str | None:
    """The commit that was checked out at the fork, if the repository still has it; None means the current one."""
    then = str((state.head or {}).get("commit"))
    if re.fullmatch("[0-9a-f]{40,64}", then) is None:
        return None
    arguments = ("cat-file", "-e", f"{then}^{{commit}}")
    code, _ = command_line.run(*arguments, cwd=repository, answers=(0, 1, 128), settings=command_line.SAFE)
    return then if code == 0 else None


def branch_note(ledger: AgentLedger, state: State) -> dict[str, Any] | None:
    """The first line of a branch: where it works. Changes of that folder are detected against this line.

    A branch that was rewound has lines from the start, and gets its folder after them.
    """
    workspace = ledger.workspace
    if workspace is None or ledger.run.session.forked_from is None:
        return None
    newest = state.lines[-1].body.get("about") if state.lines else None
    if state.number and newest != "rewound":
        return None
    text = (
        f"This is a branch. It works in a folder of its own, {workspace.root}, with the files as they were at the fork."
    )
    return {"role": "note", "about": "performed", "content": text, "head": workspace.head(), "snapshot": state.snapshot}


async def perform(ledger: AgentLedger, line: Line) -> CallReport:
    """Perform what a person ordered, once."""
    order: dict[str, Any] = line.order or {}
    tool = ORDERS.get(str(order.get("tool")))
    if tool is None:
        return not_started(f"{order.get('tool')!r:.80} cannot be ordered.")
    run, position = ledger.run, ["order", line.uid, line.number]
    with run.active():
        there = (await run.read(line_of_effects, run.session.uid, line.uid, line.number)).get(encode(position))
        arguments: dict[str, Any] = {}
        if there is None:
            try:
                arguments = tool.signature.bind((), await _arguments(ledger, order.get("arguments") or {}))
            except PerdureError as error:
                return not_started(error.message)
        try:
            effect = await ledger.perform(tool, arguments, position, there)
        except OpenDoubt as doubted:
            return of_effect(doubted.effect, "null")
        result = await ledger.result_of(effect)
        if effect.state == EffectState.ACKNOWLEDGED:
            await record_merge(run.runtime, run.session.uid, msgspec.json.decode(result, type=MergeReport), effect.id)
        return of_effect(effect, result)


async def _arguments(ledger: AgentLedger, given: Any) -> dict[str, Any]:
    """The order only says how to write conflicts. The session itself knows what is merged into which folder."""
    mark = given.get("mark", False) if isinstance(given, dict) and not given.keys() - {"mark"} else None
    if not isinstance(mark, bool):
        raise ConfigError("an order to merge takes only `mark`, which is true or false.")
    return await prepare_merge(ledger.run.runtime, ledger.run.session.uid, mark)
