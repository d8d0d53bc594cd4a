"""The command line: one module for each command, imported when the command is used.

`main` is the only place that turns an error into a message and an exit code:

    0 done    1 failed    2 wrong use    3 waiting for a person    4 held elsewhere    141 the output was closed

To add a command, write `cli/commands/NAME.py` with a function `NAME` under `@command`, and add it to `COMMANDS`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from keyword import iskeyword

import click

from perdure import __version__
from perdure.errors import ConfigError, LeaseHeld, PerdureError, ProgramUnknown, SessionWaiting, StoreUnavailable

COMMANDS = {
    "demo": "Kill an agent mid-task and resume it: nothing lost, nothing done twice. Needs no key and no server.",
    "run": "Run a program or an agent as a session, until it ends or needs a person.",
    "ls": "List sessions: those that need a person, then those that run, then the rest.",
    "show": "Show a session: its state, what it waits for and what to type, its effects, its events.",
    "brief": "Print a handover summary of a session.",
    "attach": "Watch a session from its start and then live, answer its questions, and send it messages.",
    "send": "Send a message to a session, whether it is running or waiting.",
    "answer": "Answer a question that a session asked.",
    "resume": "Resume a session after a crash, a pause or an answer.",
    "fork": "Branch a session at one of its events.",
    "rewind": "Branch from an earlier event, with the files as they were.",
    "diff": "Show what an agent changed in its files.",
    "merge": "Merge a branch into the folder that it was branched from.",
    "cancel": "Cancel a session and its children.",
    "close": "Close an agent's session that waits for the next message: it ends as done.",
    "rename": "Give a session another title.",
    "pause": "Pause a session between two steps, until `perdure resume` continues it.",
    "worker": "Run sessions that are ready, until it is stopped.",
    "effects": "List effects: what was done outside, what is in progress, and what is in doubt.",
    "settle": "Record the outcome of an effect in doubt, and how you know it.",
    "undo": "Undo an effect with the undo function of its tool.",
    "approvals": "List pending approvals, the longest wait first.",
    "approve": "Approve the exact call that an approval is bound to.",
    "deny": "Deny the call that an approval is bound to.",
    "tasks": "Show the task list of a session.",
    "decisions": "List decisions of one session or of all: what was decided, why, and the outcome.",
    "facts": "List facts that sessions remember; a fact past its age limit is marked stale.",
    "orders": "List the standing orders for agents of a repository, and those for every agent.",
    "artifacts": "List artifacts of one session or of all, the newest first.",
    "export": "Export a session as a bundle, as a copy or as a move.",
    "import": "Import a bundle: a copy runs beside its original, a move continues in its place.",
    "keys": "List your public key and the keys that you know, and add or remove one, for signed bundles.",
    "verify": "Check that the log of one session, or of all, is complete and unchanged.",
    "doctor": "Check the health of the store, which guarantees hold, and what to do.",
    "restores": "List restores: when the store was set back to an earlier state, and who released each.",
    "migrate": "Bring the store's schema up to date.",
    "prune": "Remove snapshots that no session refers to, and folders of branches that have ended.",
    "trust": "Show the settings of this folder, and trust them.",
    "completion": "Print a completion script for a shell.",
}

# Listing commands with subcommands, and the module that adds these.
SUBCOMMANDS = {
    "effects": "effect_details",
    "facts": "fact_edits",
    "tasks": "task_edits",
    "decisions": "decision_edits",
}

EXIT_CODES: dict[type[PerdureError], int] = {ConfigError: 2, ProgramUnknown: 2, SessionWaiting: 3, LeaseHeld: 4}
PIPE_CLOSED = 141  # the exit code when the reader closed its end of the pipe: 128 + SIGPIPE, as in shells
LONG, SHOWN = 160, 80  # characters: an argument longer than LONG is shortened to SHOWN in an error message


class Commands(click.Group):
    """The commands by name. Listing them does not import them."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        own = f"{name}_" if iskeyword(name) else name
        found: click.Command = getattr(importlib.import_module(f"perdure.cli.commands.{own}"), own)
        if name in SUBCOMMANDS:
            extended: click.Command = importlib.import_module(f"perdure.cli.commands.{SUBCOMMANDS[name]}").extend(found)
            return extended
        return found

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="perdure %(version)s")
def perdure() -> None:
    """Durable sessions for AI coding agents: nothing is lost, and nothing is done twice."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    output = sys.stdout
    try:
        code = perdure.main(given, prog_name="perdure", standalone_mode=False)
    except PerdureError as error:
        code = report(error, given)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"See `{context.command_path} --help`." if context else "See `perdure --help`."
        code = report(ConfigError(error.format_message(), hint=hint), given)
    except click.Abort:
        code = 130
    except SystemExit as ended:  # click replaces the output and exits with 1 when its help cannot be written
        code = ended.code if sys.stdout is output else PIPE_CLOSED
    except Exception as error:
        code = report(unexpected(error), given)
    sys.exit(code or 0)


def unexpected(error: Exception) -> PerdureError:
    """An error that is not ours, as one sentence. The traceback is printed only if the user asked for it."""
    from perdure.config import DEBUG

    if os.environ.get(DEBUG):
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
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
