"""The command line: one module per command, loaded when it is asked for.

`main` is the one place where an error becomes a sentence and an exit code:

    0 done    1 failed    2 wrong use    3 waiting for a person    4 held elsewhere    141 the output was closed

To add a command, write `cli/commands/NAME.py` with a function `NAME` under `@command` and give it a line in `COMMANDS`.
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
    "demo": "An agent is killed at the worst moment, and goes on: nothing lost, nothing twice. No key, no server.",
    "run": "Run a program or an agent as a session, to its end or to where only a person can go on.",
    "ls": "List sessions: those that need a person, then those that run, then the rest.",
    "show": "Show a session: its state, what it waits for and what to type, its effects, its events.",
    "brief": "Say what somebody needs to know who takes a session over.",
    "attach": "Show a session from its start and then live, answer what it asks, and send it messages.",
    "send": "Send a message to a session, whether it runs or waits.",
    "answer": "Answer a question that a session asked.",
    "resume": "Go on with a session after a crash, a pause or an answer.",
    "fork": "Branch a session at one of its events.",
    "rewind": "Go back to an event: a branch from there, with the files of then.",
    "diff": "Show what an agent changed in its files.",
    "merge": "Bring a branch home, into the folder that it was branched from.",
    "cancel": "Ask a session to stop, and its children with it.",
    "pause": "Ask a session to pause between two acts, until `perdure resume` lets it go on.",
    "worker": "Run sessions that are ready, until it is stopped.",
    "effects": "List effects: what was done outside, what is under way, and what is in doubt.",
    "settle": "Say what came of an effect in doubt, and why you know.",
    "undo": "Take back an effect that was done, by its tool's own undo.",
    "approvals": "List what waits for a person's yes or no, the longest wait first.",
    "approve": "Say yes to exactly what an approval is bound to.",
    "deny": "Say no to what an approval asks for.",
    "tasks": "Show a session's plan: what is open, active, blocked, done and dropped.",
    "decisions": "List decisions, of one session or of all: what was chosen, why, and what came of it.",
    "facts": "List what sessions remember; a fact past its age is marked stale.",
    "artifacts": "List, copy and print artifacts: output and other large data of sessions.",
    "export": "Write a session as one bundle that can travel: as a copy, or as a move.",
    "import": "Take a bundle in: a copy goes on beside its original, a move goes on in its place.",
    "keys": "List your public key and those that you know, and add or remove one: for signed bundles.",
    "verify": "Check that every event is there, unchanged and in its place: one session's log, or all.",
    "doctor": "Say how the store is, which promises it keeps, and what to do.",
    "restores": "List restores: when the store was put back to an earlier state, and who released each.",
    "migrate": "Bring the store's schema up to date.",
    "prune": "Remove snapshots that no session names, and folders of branches that have ended.",
    "trust": "Show the settings of this folder, and trust them.",
    "completion": "Print what makes a shell complete commands, options and session ids.",
}

# Listing commands with subcommands, and the module that adds these.
SUBCOMMANDS = {"effects": "effect_details"}

EXIT_CODES: dict[type[PerdureError], int] = {ConfigError: 2, ProgramUnknown: 2, SessionWaiting: 3, LeaseHeld: 4}
PIPE_CLOSED = 141  # the exit code when a reader closed its end of the pipe: 128 + SIGPIPE, as shells have it
LONG, SHOWN = 160, 80  # letters of an argument: from where it is shortened in an error, and to what


class Commands(click.Group):
    """The commands by name. Listing them imports none of them."""

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
    """Sessions of AI coding agents that survive anything, and do nothing twice."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    output = sys.stdout
    try:
        code = perdure.main(given, prog_name="perdure", standalone_mode=False)
    except PerdureError as error:
        code = complain(error, given)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"`{context.command_path} --help` lists what there is." if context else "`perdure --help` helps."
        code = complain(ConfigError(error.format_message(), hint=hint), given)
    except click.Abort:
        code = 130
    except SystemExit as ended:  # by click, which replaces the output and ends with 1 where its help cannot be written
        code = ended.code if sys.stdout is output else PIPE_CLOSED
    except Exception as error:
        code = complain(unexpected(error), given)
    sys.exit(code or 0)


def unexpected(error: Exception) -> PerdureError:
    """An error that is none of ours, as one sentence. The traceback is for whoever asks for it."""
    from perdure.config import DEBUG

    if os.environ.get(DEBUG):
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, OSError) and error.strerror is not None and error.filename is not None:
        return StoreUnavailable(f"{error.strerror}: {os.fsdecode(error.filename)}.")
    said = str(error).strip().rstrip(".") or "no more is known"
    return PerdureError(
        f"Something went wrong that nobody foresaw: {type(error).__name__}: {said}.",
        hint=f"Set {DEBUG}=1 and run it again to see where; `perdure doctor` says how the store is.",
    )


def complain(error: PerdureError, given: Sequence[str]) -> int:
    """Say what happened in one sentence, with its code and what to do, and return the exit code."""
    message, hint = (shortened(text, given) for text in (error.message, error.hint))
    if "--json" in given:
        import json

        said = {"code": error.code, "message": message, "hint": hint, "retry": error.retry}
        click.echo(json.dumps({"error": said}, ensure_ascii=False), err=True)
    else:
        from perdure.cli.text.plain import safe

        told = f"\n hint: {safe(hint)}" if hint else ""
        click.echo(f"error: {safe(message)} [{error.code}]{told}", err=True)
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def shortened(said: str, given: Sequence[str]) -> str:
    """What is said, without the whole of a long argument: nobody needs to read a file again that they passed."""
    for argument in given:
        for text in (argument, argument.partition("=")[2]) if len(argument) > LONG else ():
            for form in (text, repr(text)[1:-1]):
                if len(form) > LONG:
                    said = said.replace(form, form[:SHOWN] + "…")
    return said
