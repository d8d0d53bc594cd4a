"""The command line: one module for each command, imported when the command is used.

`main` is the only place that turns an error into a message and an exit code:

    0 done    1 failed    2 wrong use    3 waiting for a person    4 held elsewhere    141 the output was closed

To add a command, write `cli/commands/NAME.py` with a function `NAME` under `@command`, and add it to `GROUPS`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword

import click

from perdure import __version__
from perdure.errors import ConfigError, LeaseHeld, PerdureError, ProgramUnknown, SessionWaiting, StoreUnavailable

# Every command is in exactly one group of `perdure --help`.
GROUPS = {
    "Sessions": {
        "demo": "Kill an agent mid-task and resume it: nothing lost, nothing done twice. Needs no key and no server.",
        "run": "Run a program or an agent as a session, until it ends or needs a person.",
        "ls": "List sessions: those that need a person, then those that run, then the rest.",
        "search": "Search what sessions said and did: titles, prompts, messages, decisions and outputs.",
        "show": "Show a session: its state, what it waits for and what to type, its effects, its events.",
        "brief": "Print a handover summary of a session.",
        "attach": "Watch a session from its start and then live, answer its questions, and send it messages.",
        "send": "Send a message to a session, whether it is running or waiting.",
        "resume": "Resume a session after a crash, a pause or an answer, or with your next message.",
        "pause": "Pause a session between two steps, until `perdure resume` continues it.",
        "interrupt": "Stop what a session does now; then it waits for a person.",
        "cancel": "Cancel a session and its children.",
        "close": "Close an agent's session that waits for the next message: it ends as done.",
        "rename": "Give a session another title.",
        "archive": "Hide a session from the list; a message or `resume` brings it back.",
        "rm": "Remove the content of a session for good; its id is not used again.",
        "retry": "Run a failed session again, in place.",
    },
    "Branches": {
        "fork": "Branch a session at one of its events.",
        "rewind": "Branch from an earlier event, with the files as they were.",
        "diff": "Show what an agent changed in its files.",
        "merge": "Merge a branch into the folder that it was branched from.",
    },
    "People": {
        "answer": "Answer a question that a session asked.",
        "approvals": "List pending approvals, the longest wait first.",
        "approve": "Approve the exact call that an approval is bound to.",
        "deny": "Deny the call that an approval is bound to.",
        "withdraw": "Withdraw an approval before its effect is dispatched.",
        "settle": "Record the outcome of an effect in doubt, and how you know it.",
        "undo": "Undo an effect with the undo function of its tool.",
    },
    "Record": {
        "effects": "List effects: what was done outside, what is in progress, and what is in doubt.",
        "tasks": "Show the task list of a session.",
        "decisions": "List decisions of one session or of all: what was decided, why, and the outcome.",
        "facts": "List facts that sessions remember; a fact past its age limit is marked stale.",
        "orders": "List the standing orders for agents of a repository, and those for every agent.",
        "artifacts": "List artifacts of one session or of all, the newest first.",
        "export": "Export a session as a bundle, as a copy or as a move.",
        "import": "Import a bundle: a copy runs beside its original, a move continues in its place.",
        "audit": "List the questions of auditors, and answer them.",
        "verify": "Check that the log of one session, or of all, is complete and unchanged.",
    },
    "Operations": {
        "serve": "Run workers and services for a store, answer requests over HTTP, and restart what fails.",
        "tree": "Show the processes that run a store, as their supervisors see them.",
        "top": "Show processes, queues and stuck sessions, live.",
        "worker": "Run sessions that are ready, until it is stopped.",
        "queues": "List queues with their limits and the numbers of their sessions.",
        "schedules": "List schedules with their next tick, and what the last one did.",
        "limits": "List the limits of model providers, which all workers share.",
        "doctor": "Check the health of the store, which guarantees hold, and what to do.",
        "principals": "List the people and programs of the store, with their roles and logins.",
        "notifications": "List notifications, the newest first.",
        "token": "List the tokens of the service, the newest first.",
        "policy": "Show the policy: who set it, whether it is frozen, and its text.",
        "exemptions": "List exemptions from rules of the policy, the newest first.",
        "roles": "Show the roles of a PostgreSQL store and whether they are in force, or make them.",
        "evaluate": "Measure what Perdure and other designs keep under kills and contention, and write a report.",
        "migrate": "Bring the store's schema up to date.",
        "restores": "List restores: when the store was set back to an earlier state, and who released each.",
        "prune": "Remove snapshots that no session refers to, and folders of branches that have ended.",
        "keys": "List your public key and the keys that you know, and add or remove one, for signed bundles.",
        "trust": "Show the settings of this folder, and trust them.",
        "completion": "Print a completion script for a shell.",
    },
}
HIDDEN = ("service",)  # what other commands start
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}

# Words of other tools, and the command that does the same here.
SYNONYMS = {
    "cat": "show", "commit": "merge", "continue": "resume", "delete": "rm", "history": "show", "kill": "cancel",
    "list": "ls", "log": "show", "logs": "show", "ps": "ls", "reject": "deny", "remove": "rm", "sessions": "ls",
    "start": "run", "status": "show", "stop": "interrupt",
}  # fmt: skip

# Listing commands with subcommands, and the module that adds these.
SUBCOMMANDS = {
    "effects": "effect_details",
    "facts": "fact_edits",
    "tasks": "task_edits",
    "decisions": "decision_edits",
}

EXIT_CODES: dict[type[PerdureError], int] = {ConfigError: 2, ProgramUnknown: 2, SessionWaiting: 3, LeaseHeld: 4}
COMPLETION = "_PERDURE_COMPLETE"  # set by the shell that asks for completions
PIPE_CLOSED = 141  # the exit code when the reader closed its end of the pipe: 128 + SIGPIPE, as in shells
SIMILAR = 0.7  # how similar a word is to a mistyped one, from 0 to 1
LONG, SHOWN = 160, 80  # characters: an argument longer than LONG is shortened to SHOWN in an error message


class Commands(click.Group):
    """The commands by name. Listing them does not import them."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name not in HIDDEN:
            return None
        own = f"{name}_" if iskeyword(name) else name
        found: click.Command = getattr(importlib.import_module(f"perdure.cli.commands.{own}"), own)
        if name in SUBCOMMANDS:
            extended: click.Command = importlib.import_module(f"perdure.cli.commands.{SUBCOMMANDS[name]}").extend(found)
            return extended
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments; the shared options that were given before it come first."""
        if args[0] not in COMMANDS and args[0] not in HIDDEN and not ctx.resilient_parsing:
            ctx.fail(_unknown_command(args[0]))
        name, found, rest = super().resolve_command(ctx, args)
        return name, found, [*_leading_options(ctx), *rest]

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(widest), summary) for name, summary in commands.items()])


def shared_options() -> list[click.Parameter]:
    """The options of every command, which may also be given before its name."""
    return [
        click.Option(["--store"], metavar="ADDRESS", help="The store: a path, files:DIR, postgresql://…, https://…"),
        click.Option(["--json"], is_flag=True, help="Print JSON: one object, or one object per line for a list."),
        click.Option(
            ["--app"], metavar="MODULE", multiple=True, help="Load programs and tools from a module or a .py file."
        ),
        click.Option(["--verbose"], is_flag=True, help="Write log messages to standard error."),
    ]


def _leading_options(ctx: click.Context) -> list[str]:
    given = ctx.params
    words = [] if given["store"] is None else [f"--store={given['store']}"]
    words += [f"--app={one}" for one in given["app"]]
    return words + [f"--{name}" for name in ("json", "verbose") if given[name]]


def _unknown_command(word: str) -> str:
    if len(word.split()) > 1:
        return f"There is no command {word!r}. A prompt for an agent follows `perdure run`."
    return f"There is no command {word!r}.{did_you_mean(word, COMMANDS, SYNONYMS)}"


def did_you_mean(word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str:
    """A question that names the known words most similar to a mistyped one; empty if there is none."""
    from difflib import get_close_matches

    word, words = word[:SHOWN].lower(), list(known)
    if (same := (synonyms or {}).get(word)) is not None:
        found = [same]
    else:
        found = [one for one in words if len(word) > 1 and one.startswith(word)]
        found = found or get_close_matches(word, words, n=2, cutoff=SIMILAR)
    return f" Did you mean {' or '.join(found[:3])}?" if found else ""


@click.group(cls=Commands, params=shared_options(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="perdure %(version)s")
def perdure(**_: object) -> None:
    """Durable sessions for AI coding agents: nothing is lost, and nothing is done twice."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    output = sys.stdout
    if COMPLETION in os.environ:
        importlib.import_module("perdure.cli.bash_completion")
    try:
        code = perdure.main(given, prog_name="perdure", standalone_mode=False)
    except PerdureError as error:
        code = report(error, given)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = 2
    except click.ClickException as error:
        code = report(wrong_use(error), given)
    except click.Abort:
        code = 130
    except SystemExit as ended:  # click replaces the output and exits with 1 when its help cannot be written
        code = ended.code if sys.stdout is output else PIPE_CLOSED
    except Exception as error:
        code = report(unexpected(error), given)
    sys.exit(code or 0)


def wrong_use(error: click.ClickException) -> ConfigError:
    """An error of the command line, with the option that may have been meant."""
    context: click.Context | None = getattr(error, "ctx", None)
    message = error.format_message().replace("a valid integer range", "a whole number")
    message = message.replace("a valid float range", "a number")
    if isinstance(error, click.NoSuchOption) and context is not None:
        known = [name for one in context.command.get_params(context) for name in one.opts if name.startswith("--")]
        message = f"There is no option {error.option_name}.{did_you_mean(error.option_name, known)}"
    return ConfigError(message, hint=f"See `{context.command_path if context else 'perdure'} --help`.")


def unexpected(error: Exception) -> PerdureError:
    """An error that is not ours, as one sentence. The traceback is printed only if the user asked for it."""
    from perdure.config import DEBUG

    if os.environ.get(DEBUG):
        import traceback

        from perdure.secrets.mask import mask

        click.echo(mask("".join(traceback.format_exception(error))), err=True, nl=False)
    if isinstance(error, OSError) and error.strerror is not None and error.filename is not None:
        return StoreUnavailable(f"{error.strerror}: {os.fsdecode(error.filename)}.")
    detail = str(error).strip().rstrip(".") or "no message"
    return PerdureError(
        f"Unexpected error: {type(error).__name__}: {detail}.",
        hint=f"Set {DEBUG}=1 and run the command again for a traceback. `perdure doctor` checks the store.",
    )


def report(error: PerdureError, given: Sequence[str]) -> int:
    """Print the message, the code and the hint of an error, and return the exit code."""
    message, hint = (shortened(text, given) for text in (error.message, error.hint))
    if "--json" in given:
        import json

        shown = {"code": error.code, "message": message, "hint": hint, "retry": error.retry}
        click.echo(json.dumps({"error": shown}, ensure_ascii=False), err=True)
    else:
        from perdure.cli.text.plain import safe

        advice = f"\n hint: {safe(hint)}" if hint else ""
        click.echo(f"error: {safe(message)} [{error.code}]{advice}", err=True)
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def shortened(message: str, given: Sequence[str]) -> str:
    """The message, with long arguments of the command line shortened: the user has the whole text already."""
    for argument in given:
        for text in (argument, argument.partition("=")[2]) if len(argument) > LONG else ():
            for form in (text, repr(text)[1:-1]):
                if len(form) > LONG:
                    message = message.replace(form, form[:SHOWN] + "…")
    return message
