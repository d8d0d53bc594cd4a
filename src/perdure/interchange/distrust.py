"""What an import does not trust: permissions and votes in a bundle, and rows that contradict their log.

A bundle may come from anyone and contain anything. Its rows must follow from its log; its permissions and the votes of
people elsewhere are found here, so that an import can drop them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.contradiction import LogView, contradictions
from perdure.domain.effect import SETTLED
from perdure.domain.permission import LARGE, PROGRAM, REPOSITORY, granted, is_large, is_reduced, without
from perdure.errors import BundleInvalid, Damaged, IllegalMove
from perdure.ids import decode, encode
from perdure.interchange.bundle import ARTIFACT
from perdure.interchange.unpack import BundleReader
from perdure.store.moves.session_retry import KIND as RETRIED
from perdure.store.statements import RECORDS
from perdure.store.transfer.session_export import Columns, StoredSession

FOLDER_TOOLS = frozenset({"merge_branch", "open_worktree", "rewind_files"})  # they change folders that they name
FOLDER_PROGRAMS = frozenset({"bring_home", "rewind_folder"})  # they ask no one: a person decided before the start


def refuse_folder_program(kept: StoredSession) -> None:
    """Refuse the session of a rewind or of a merge: continued or forked elsewhere, it would change a folder there."""
    if kept.session["program"] in FOLDER_PROGRAMS:
        raise IllegalMove(
            f"Session {kept.session['id']} only changes a folder of one machine, and has no meaning elsewhere.",
            hint="Export the session whose folder it is.",
        )


def refuse_open_folder_changes(kept: StoredSession) -> None:
    """Refuse a move in the middle of a change of a folder: recovery elsewhere would change a folder of that name."""
    for one in kept.tables["effect"]:
        if one["tool"] in FOLDER_TOOLS and one["state"] not in SETTLED:
            raise IllegalMove(
                f"Session {kept.session['id']} is in the middle of {one['tool']}, which belongs to this machine.",
                hint=f"Run `perdure resume {kept.session['id']}` first, where its folder is.",
            )


def check_rows(kept: StoredSession, bundle: BundleReader) -> None:
    """Refuse rows that contradict the log, and an open effect whose events were erased."""
    id = kept.session["id"]
    try:
        log = LogView(_record("event", one) for one in kept.events)
        session = _record("session", kept.session).to_dict()
        tables = {name: [_record(name, row).to_dict() for row in rows] for name, rows in kept.tables.items()}
        found = next(contradictions(session, tables, log), None)
    except Damaged as error:
        raise BundleInvalid(f"The log of session {id} cannot be followed. {error.message}") from None
    if found is not None:
        key = ", ".join(f"{name} {value}" for name, value in found.key.items())
        raise BundleInvalid(f"A row of session {id} contradicts its log: table {found.table}, {key}: {found.what}.")
    logged, program = log.state.session.get("arguments"), session["program"]
    if is_large(logged) and not is_large(session["arguments"]):
        whole = _whole(logged, id, bundle)
        if not is_reduced(program, session["arguments"], whole):
            raise BundleInvalid(f"The arguments of session {id} contradict its log.")
    check_retries(kept)
    for one in kept.tables["effect"]:
        if one["state"] not in SETTLED and log.unknown("effect", one):
            raise BundleInvalid(
                f"Session {id}: effect {one['id']} is open, and events that would tell of it are erased."
            )


def check_retries(kept: StoredSession) -> None:
    """Refuse retries that were erased or miscounted: they say which records count."""
    retried = [one for one in kept.events if one["kind"] == RETRIED]
    numbers = [_again(one["body"]) for one in retried]
    if None in numbers or (kept.session["retries"] or 0) != len(retried):
        raise BundleInvalid(f"The retries of session {kept.session['id']} are not those of its log.")


def _again(body: str | None) -> list[int] | None:
    """The numbers of the events that a retry repeats; None if it does not name them."""
    said = None if body is None else decode(body)
    found = said.get("again") if isinstance(said, dict) else None
    return found if isinstance(found, list) and all(type(one) is int for one in found) else None


def _record(table: str, row: Columns) -> Any:
    record = RECORDS[table]
    return record.from_row([row[name] for name in record.columns()])


def granted_to(kept: StoredSession, bundle: BundleReader) -> dict[str, Any]:
    """The permissions of one session."""
    row = kept.session
    return granted(row["program"], _arguments(row, bundle), row["repository"])


def reduced(
    kept: StoredSession, bundle: BundleReader, names: frozenset[str], folder: str | None = None
) -> StoredSession:
    """A session without some permissions, in `folder` if it worked in one. The rows are copies."""
    row, tables = dict(kept.session), {name: [dict(one) for one in rows] for name, rows in kept.tables.items()}
    if names & granted_to(kept, bundle).keys() - {REPOSITORY}:
        row["arguments"] = encode(without(_arguments(row, bundle), names))
    if REPOSITORY in names:
        row["repository"] = None
    if folder is not None and kept.session["repository"] is not None:
        row["repository"] = folder
    return StoredSession(row, kept.events, tables)


def _arguments(row: Columns, bundle: BundleReader) -> Any:
    """The arguments of a session; large ones are an artifact of the bundle."""
    arguments = None if row["arguments"] is None else decode(row["arguments"])
    if row["program"] != PROGRAM or not is_large(arguments):
        return arguments
    return _whole(arguments, row["id"], bundle)


def _whole(arguments: Any, id: str, bundle: BundleReader) -> Any:
    name = ARTIFACT.format(arguments[LARGE])
    if name not in bundle.manifest.files:
        raise BundleInvalid(f"Session {id} names arguments that are not in the bundle.")
    try:
        return msgspec.json.decode(bundle.content(name))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise BundleInvalid(f"The arguments of session {id} are not JSON.") from None


def unsettled_votes(kept: StoredSession) -> list[str]:
    """Approvals of effects that are not settled and have a vote."""
    states = {one["approval_id"]: one["state"] for one in kept.tables["effect"]}
    voted = {one["approval_id"] for one in kept.tables["vote"]}
    return [
        one["id"]
        for one in kept.tables["approval"]
        if one["id"] in states
        and states[one["id"]] not in SETTLED
        and (one["decision"] is not None or one["id"] in voted)
    ]
