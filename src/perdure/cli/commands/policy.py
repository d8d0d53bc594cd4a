"""`perdure policy`: what may be done in this store, by whom it was set, and how a call is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.cli.subcommands import ListingCommand
from perdure.config import is_service
from perdure.domain.literals import ProfileName

if TYPE_CHECKING:
    from datetime import datetime

    from perdure.runtime.policy.policies import PolicyView
    from perdure.runtime.runtime import Runtime
    from perdure.store.move import StoreTransaction

PROFILES: tuple[ProfileName, ...] = ("default", "read-only", "workspace", "full")
BECAUSE = click.option("--because", metavar="TEXT", required=True, help="The reason.")
PROFILE = click.option("--profile", type=click.Choice(PROFILES), help="A policy that ships, instead of a file.")
HEADINGS = ("version", "set", "by~", "reason~")


@command
@click.option("--at", metavar="VERSION|TIME", help="Not the active one, but this one, or the one that was active then.")
def show(shell: Shell, at: str | None) -> None:
    """Show the policy: who set it, whether it is frozen, and its text. Version 0 is the one that ships."""
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.cli.text.policy import head_of, text_of
    from perdure.clock import SystemClock
    from perdure.runtime.policy.policies import view_of

    if is_service(shell.store):
        found, now = run_with_runtime(shell, lambda runtime: runtime.get_policy(_point(at))), SystemClock().now()
    else:
        with read_store(shell) as tx:
            found, now = view_of(tx, _point(at)), tx.now
    if shell.json:
        shell.echo_json(found)
    else:
        shell.echo(*head_of(found, now), "", *text_of(found.source))


@command
@click.argument("file", required=False)
@PROFILE
@BECAUSE
@by_option
def set_(shell: Shell, file: str | None, profile: ProfileName | None, because: str) -> None:
    """Make a file the policy of the store, for every process from its commit on.

    The file is refused if it cannot be read, or if one of its examples is answered otherwise than it says.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.policy import summary_of
    from perdure.domain.policy import parse

    source = _source(file, profile)
    made = run_with_runtime(
        shell, lambda runtime: runtime.set_policy(source, because=because, by=shell.by), create=True
    )  # fmt: skip
    if shell.json:
        shell.echo_json(made)
    else:
        shell.echo(f"Version {made.version} of the policy is active: {summary_of(parse(made.source))}.")


@command
@click.argument("versions", nargs=-1, metavar="[FROM] [TO]")
def diff(shell: Shell, versions: tuple[str, ...]) -> None:
    """Show how two versions differ: the last change, a version and the active one, or two versions.

    FROM and TO are numbers of versions, or files.
    """
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.cli.text.policy import diff_lines
    from perdure.runtime.policy.policies import difference

    if len(versions) > 2:
        raise click.UsageError("Give at most two versions.")
    if is_service(shell.store):
        before, after = run_with_runtime(shell, lambda runtime: _sides_there(runtime, versions))
    else:
        with read_store(shell) as tx:
            before, after = _sides(tx, versions)
    lines = difference(before, after)
    if shell.json:
        shell.echo_json({"from": before.version, "to": after.version, "lines": lines})
    elif lines:
        shell.echo(*diff_lines(lines))
    else:
        shell.echo("They are the same.")


@command
@click.argument("file", required=False)
@PROFILE
@click.option("--against", metavar="DURATION", help='Also judge the effects of this time, such as "7d".')
def check(shell: Shell, file: str | None, profile: ProfileName | None, against: str | None) -> None:
    """Check a policy: that it can be read, and that its examples are answered as they say.

    With --against, the effects of that time are judged by it, and those that it would judge otherwise are listed. The
    cost is then what each session has spent in all, and what a session had read is left out.
    """
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import count
    from perdure.cli.text.policy import differences_of
    from perdure.domain.policy import parse
    from perdure.runtime.policy.recorded_calls import PolicyCheck

    source = _source(file, profile)
    document = parse(source, file or profile or "")
    examples = sum(len(rule.examples) for rule in document.rules)
    found = PolicyCheck(len(document.rules), examples, len(document.budgets))
    if against is not None:
        found = run_with_runtime(shell, lambda runtime: runtime.check_policy(source, against=against))
    if shell.json:
        shell.echo_json(found)
        return
    parts = [count(found.rules, "rule"), count(found.examples, "example")]
    if found.budgets:
        parts.insert(1, count(found.budgets, "budget"))
    shell.echo(f"The policy is correct: {', '.join(parts)}.")
    if against is not None:
        shell.echo(*differences_of(found, shell.width))


@command
@click.argument("effect", required=False)
@click.option("--tool", metavar="NAME", help="A call of this tool, instead of an effect.")
@click.option("--arg", "arguments", metavar="KEY=VALUE", multiple=True, help="An argument of the call; repeatable.")
@click.option("--session", metavar="ID", help="A session that makes the call.")
@click.option("--action", type=click.Choice(["do", "undo", "model"]), default="do", show_default=True)
@click.option("--sandbox", type=click.Choice(["bubblewrap", "landlock", "none"]), help="The sandbox of a command.")
@click.option("--network/--no-network", default=None, help="Whether the command can reach the network.")
@click.option(
    "--origin", "origins", metavar="TEXT", multiple=True, help="What was read before: `web:HOST`, `file:PATH`."
)
@click.option("--cost", type=float, metavar="DOLLARS", help="What the session has spent.")
def explain(
    shell: Shell, effect: str | None, tool: str | None, arguments: tuple[str, ...], session: str | None, action: Any,
    **site: Any,
) -> None:  # fmt: skip
    """Explain how the active policy judges an effect, or a call: every rule that matches, the strictest first.

    Gates of tools and functions in code are not part of the policy; they may still ask or deny.
    """
    from perdure.agent.tools.builtin_tools import SHIPPED
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.policy import explanation_of, unknown_names

    assert SHIPPED  # what the tools that ship declare is known
    site |= {"tool": tool, "arguments": _arguments(arguments), "action": action, "session": session}
    found = run_with_runtime(shell, lambda runtime: runtime.explain_policy(effect, **site))
    shell.echo_json(found) if shell.json else shell.echo(*explanation_of(found))
    for one in () if tool is None else unknown_names(tool, site["arguments"]):
        shell.note(f"note: {one}")


@command
def history(shell: Shell) -> None:
    """List the versions of the policy, the newest first."""
    from perdure.cli.store_access import read_store, run_with_runtime
    from perdure.cli.text.grid import grid
    from perdure.cli.text.plain import safe, short
    from perdure.clock import format_time
    from perdure.store.moves import policy

    if is_service(shell.store):
        found = run_with_runtime(shell, lambda runtime: runtime.policy_versions())
    else:
        with read_store(shell) as tx:
            found = policy.versions(tx)
    if shell.json:
        for one in found:
            shell.echo_json(one)
    elif not found:
        shell.echo("No policy was set. The one that ships is in force: `perdure policy show`.")
    else:
        rows = [
            [str(one.version), format_time(one.activated_at), safe(one.activated_by), short(one.reason)]
            for one in found
        ]  # fmt: skip
        shell.echo(*grid(HEADINGS, rows, width=shell.width))


@command
@BECAUSE
@by_option
def freeze(shell: Shell, because: str) -> None:
    """Stop every dispatch in every process. What has begun continues; sessions wait until `perdure policy thaw`."""
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.policy import freeze_line

    found = run_with_runtime(shell, lambda runtime: runtime.freeze_policy(because=because, by=shell.by))
    _say(shell, found, freeze_line(found, because))


@command
@click.option("--because", metavar="TEXT", help="The reason.")
@by_option
def thaw(shell: Shell, because: str | None) -> None:
    """Allow dispatches again, under the active version. Sessions that waited continue."""
    from perdure.cli.store_access import run_with_runtime

    found = run_with_runtime(shell, lambda runtime: runtime.thaw_policy(because=because, by=shell.by))
    _say(shell, found, f"Version {found.version} of the policy is in force again.")


def _say(shell: Shell, found: PolicyView, sentence: str) -> None:
    if shell.json:
        shell.echo_json(found)
    else:
        shell.echo(sentence)


def _source(file: str | None, profile: ProfileName | None) -> str:
    """The text of a file, or of a policy that ships."""
    from perdure.domain.policy import shipped_text
    from perdure.errors import ConfigError

    if (file is None) == (profile is None):
        raise click.UsageError("Give a file, or --profile.")
    if profile is not None:
        return shipped_text(profile)
    try:
        return Path(str(file)).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file} cannot be read: {why}.", hint="Give the path of a policy file.") from None


def _point(at: str | None) -> int | datetime | None:
    """A version, or a time; a time without a zone is refused."""
    from perdure.cli.options.start import parse_time
    from perdure.errors import ConfigError

    if at is None or at.isdecimal():
        return None if at is None else int(at)
    if isinstance(then := parse_time(at), str):
        raise ConfigError(f"{at!r:.60} is no version and no time.", hint="Write 3, or 2030-01-31T08:00Z.")
    return then


def _sides(tx: StoreTransaction, named: tuple[str, ...]) -> tuple[PolicyView, PolicyView]:
    """What is compared: the version before and the active one, unless they are named."""
    from perdure.runtime.policy.policies import view_of
    from perdure.store.moves import policy

    known = [] if named else policy.versions(tx, limit=2)
    words = named or (str(known[1].version) if len(known) > 1 else "0",)
    sides = [view_of(tx, int(one)) if one.isdecimal() else _file(one) for one in words]
    return sides[0], sides[1] if len(sides) > 1 else view_of(tx)


async def _sides_there(runtime: Runtime, named: tuple[str, ...]) -> tuple[PolicyView, PolicyView]:
    """The same, of a service."""
    known = [] if named else await runtime.policy_versions()
    words = named or (str(known[1].version) if len(known) > 1 else "0",)
    sides = [await runtime.get_policy(int(one)) if one.isdecimal() else _file(one) for one in words]
    return sides[0], sides[1] if len(sides) > 1 else await runtime.get_policy()


def _file(named: str) -> PolicyView:
    """A file as if it were a version."""
    from perdure.runtime.policy.policies import PolicyView

    return PolicyView(-1, _source(named, None), None, named, "", None, is_active=False)


def _arguments(given: tuple[str, ...]) -> dict[str, Any]:
    """Arguments `key=value`; a value that is JSON is read as JSON."""
    from perdure.errors import ConfigError, PerdureError
    from perdure.ids import decode

    found: dict[str, Any] = {}
    for one in given:
        key, equals, text = one.partition("=")
        if not key or not equals:
            raise ConfigError(f"{one!r:.60} is not an argument.", hint="Write --arg KEY=VALUE.")
        try:
            found[key] = decode(text)
        except (PerdureError, ValueError):
            found[key] = text
    return found


policy = ListingCommand(
    show,
    {
        "show": show, "set": set_, "diff": diff, "check": check, "explain": explain, "history": history,
        "freeze": freeze, "thaw": thaw,
    },
)  # fmt: skip
policy.name = "policy"
