"""`perdure exemptions`: who lifted which rule of the policy, for what, until when, and how often it was used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand

if TYPE_CHECKING:
    from perdure.domain.exemption import Exemption
    from perdure.store.move import StoreTransaction

HEADINGS = ("exemption", "rule", "covers~", "state", "used", "expires", "by~", "reason~")
SHOWN = 20


@command
@click.option("--session", metavar="ID", help="Only exemptions for this session.")
@click.option("--rule", metavar="NAME", help="Only exemptions from this rule.")
@click.option("--active", is_flag=True, help="Only those that still cover something.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Maximum number to list."
)
def ls(shell: Shell, session: str | None, rule: str | None, active: bool, limit: int) -> None:
    """List exemptions from rules of the policy, the newest first."""
    from perdure.cli.store_access import read_store
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe, short
    from perdure.store.moves import exemption
    from perdure.store.moves import session as sessions

    with read_store(shell) as tx:
        uid = None if session is None else sessions.find(tx, session).uid
        found, now = exemption.listing(tx, uid=uid, rule=rule, active=active, limit=limit + 1), tx.now
        rows = [
            [
                one.id, safe(one.rule), covers(tx, one), one.state(now), count(one), until(one, now),
                safe(one.granted_by), short(one.reason),
            ]
            for one in found[:limit]
        ]  # fmt: skip
    if shell.json:
        for one in found[:limit]:
            shell.echo_json(as_json(one, now))
    elif not found:
        shell.echo("There are no exemptions.")
    else:
        shell.echo(*grid(HEADINGS, rows, width=shell.width))
        if len(found) > limit:
            shell.echo("", f"These are the first {limit}. Use --limit to list more.")


@command
@click.argument("id")
def show(shell: Shell, id: str) -> None:
    """Show one exemption, and the effects that used it."""
    from perdure.cli.store_access import read_store
    from perdure.cli.text.plain import safe
    from perdure.clock import span
    from perdure.store.moves import exemption
    from perdure.store.moves import session as sessions

    with read_store(shell) as tx:
        one, now = exemption.find(tx, id), tx.now
        uses = exemption.uses(tx, one.id, limit=exemption.MANY if shell.json else SHOWN)
        lines = [
            f"exemption  {one.id}, {one.state(now)}",
            f"rule       {safe(one.rule)}",
            f"covers     {covers(tx, one)}",
            f"granted    {span(now - one.granted_at)} ago by {safe(one.granted_by)}",
            f"identity   {safe(one.grantor or 'not recorded')}",
            f"reason     {safe(one.reason)}",
            f"expires    {until(one, now)}",
            f"used       {count(one)}",
        ]
        if one.approval_id is not None:
            lines.append(f"approval   {safe(one.approval_id)}")
        if one.revoked_at is not None:
            lines.append(f"revoked    by {safe(one.revoked_by or '')}: {safe(one.revoked_because or '')}")
        lines += [
            f"  {sessions.get(tx, use.session_uid).id}  {use.effect_id}  {span(now - use.at)} ago" for use in uses
        ]
    if shell.json:
        shell.echo_json(as_json(one, now) | {"effects": [use.to_dict() for use in uses]})
    else:
        shell.echo(*lines)


@command
@click.argument("rule")
@click.option("--session", metavar="ID", help="What it covers: one session.")
@click.option("--repo", metavar="DIR|NAME", help="A repository: a folder, or its name such as github.com/org/repo.")
@click.option("--owner", metavar="NAME", help="The sessions of an owner.")
@click.option("--tool", metavar="NAME", help="Calls of a tool.")
@click.option("--because", metavar="TEXT", required=True, help="The reason.")
@click.option(
    "--expires", metavar="DURATION", default="24h", show_default=True, help='When it ends: "8h", "7d", never.'
)
@click.option("--uses", type=click.IntRange(1), metavar="N", help="How many effects may use it.  [default: any number]")
@by_option
def grant(
    shell: Shell, rule: str, session: str | None, repo: str | None, owner: str | None, tool: str | None, because: str,
    expires: str, uses: int | None,
) -> None:  # fmt: skip
    """Lift a rule of the policy for what the options name; all of them must fit.

    A call that the rule would ask about is dispatched without a question, and is recorded with the exemption. A gate of
    the tool itself, and every other rule, still decide.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import count as calls
    from perdure.cli.text.plain import safe

    made = run_with_runtime(
        shell,
        lambda runtime: runtime.grant_exemption(
            rule, session=session, repository=repo, owner=owner, tool=tool, because=because, expires=expires, uses=uses,
            by=shell.by,
        ),
    )  # fmt: skip
    if shell.json:
        shell.echo_json(made)
    else:
        limit = "" if made.uses is None else f" It covers {calls(made.uses, 'call')}."
        shell.echo(f"The exemption {made.id} from the rule {safe(made.rule)} is granted.{limit}")


@command
@click.argument("id")
@click.option("--because", metavar="TEXT", required=True, help="The reason.")
@by_option
def revoke(shell: Shell, id: str, because: str) -> None:
    """Revoke an exemption: it covers nothing new from now on."""
    from perdure.cli.store_access import run_with_runtime

    done = run_with_runtime(shell, lambda runtime: runtime.revoke_exemption(id, because=because, by=shell.by))
    if shell.json:
        shell.echo_json(done)
    else:
        shell.echo(f"The exemption {done.id} is revoked; it was used {count(done)}.")


def as_json(one: Exemption, now: int) -> dict[str, Any]:
    return one.to_dict() | {"state": one.state(now)}


def covers(tx: StoreTransaction, one: Exemption) -> str:
    """What an exemption covers, in words."""
    from perdure.cli.text.plain import safe
    from perdure.domain.exemption import ANY_TOOL
    from perdure.store.moves import session as sessions

    parts = []
    if one.tool is not None and one.tool != ANY_TOOL:
        parts.append(f"one exact call of {safe(one.tool)}" if one.intent_digest else safe(one.tool))
    if one.session_uid is not None:
        parts.append(f"in session {safe(sessions.get(tx, one.session_uid).id)}")
    parts += [f"in {safe(one.repository)}"] if one.repository is not None else []
    parts += [f"of {safe(one.owner)}"] if one.owner is not None else []
    return " ".join(parts)


def count(one: Exemption) -> str:
    return f"{one.used} times" if one.uses is None else f"{one.used} of {one.uses} times"


def until(one: Exemption, now: int) -> str:
    from perdure.clock import span

    if one.expires_at is None:
        return "never"
    return f"in {span(one.expires_at - now)}" if one.expires_at > now else f"{span(now - one.expires_at)} ago"


exemptions = ListingCommand(ls, {"ls": ls, "show": show, "grant": grant, "revoke": revoke})
exemptions.name = "exemptions"
