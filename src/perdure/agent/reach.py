"""Reach: whether an effect left this machine, as far as its record shows.

The answer comes from the record and not from loaded code, so it is the same in every process. A tool that ships is
known by its name. A user's tool that was declared with a `reach` below `outside` stays here, and so does one with the
replay rule `pure` or `joint`; with any other, something may happen outside.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from perdure.domain.effect import Effect, EffectReach, EffectState, Replay
from perdure.store.move import StoreTransaction
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of


class Reach(StrEnum):
    """Whether an effect left the machine. `MAYBE`: the record does not show it."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"


COMMAND, MODEL = "run_command", "model"
HERE = (EffectReach.NONE, EffectReach.WORKSPACE, EffectReach.MACHINE)
STORED_AGENT = "agent"  # the program of the command line: whether it may use the network is in its arguments
NETWORKLESS = "bubblewrap"  # the sandbox without a way to the network or to sockets of services
SHIPPED = {
    **dict.fromkeys(("fetch_url", "git_push"), Reach.YES),
    **dict.fromkeys((COMMAND, MODEL), Reach.MAYBE),
    **dict.fromkeys(
        (
            "ask_person", "decide", "decided", "delegate", "edit_file", "git_branch", "git_commit", "git_diff",
            "git_log", "git_status", "list_files", "merge_branch", "open_worktree", "plan", "read_file", "recall",
            "remember", "rewind_files", "run_command.look", "save_artifact", "search_files", "write_file",
        ),
        Reach.NO,
    ),
}  # fmt: skip


def of(tx: StoreTransaction, effect: Effect) -> Reach:
    """Whether this effect left the machine."""
    declared = SHIPPED.get(effect.tool)
    if declared is None:
        stays = effect.replay in (Replay.PURE, Replay.JOINT) or effect.reach in HERE
        declared = Reach.NO if stays else Reach.MAYBE
    if declared is Reach.NO or _was_not_done(effect):
        return Reach.NO
    if effect.tool == COMMAND and _had_no_network(tx, effect):
        return Reach.NO
    if effect.tool == MODEL:
        declared = _of_model(tx, effect)
    done = effect.state in (EffectState.ACKNOWLEDGED, EffectState.COMPENSATED, EffectState.SUPERSEDED)
    return declared if done or declared is Reach.NO else Reach.MAYBE


def _was_not_done(effect: Effect) -> bool:
    """Whether an effect was never dispatched, or is proven not to have happened."""
    if effect.state in (EffectState.PLANNED, EffectState.REFUSED):
        return True
    return effect.state == EffectState.FAILED and effect.verdict is None and effect.replay != Replay.PURE


def _of_model(tx: StoreTransaction, effect: Effect) -> Reach:
    """A provider is elsewhere, unless the session names another address, which may be on this machine."""
    kind = str(effect.intent.get("model") if isinstance(effect.intent, dict) else "").partition(":")[0]
    if kind == "scripted":
        return Reach.NO
    _, given = _session_of(tx, effect)
    return Reach.YES if kind in ("anthropic", "openai") and not given.get("base_url") else Reach.MAYBE


def _session_of(tx: StoreTransaction, effect: Effect) -> tuple[str, dict[str, Any]]:
    found = sessions.get(tx, effect.session_uid)
    return found.program, found.arguments if isinstance(found.arguments, dict) else {}


def _had_no_network(tx: StoreTransaction, effect: Effect) -> bool:
    program, given = _session_of(tx, effect)
    if program != STORED_AGENT or given.get("network"):
        return False
    return all(one.sandbox == NETWORKLESS for one in attempts_of(tx, effect.session_uid, effect.id))
