"""`perdure run`: begin a session of a program, or go on with it, here and now."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.shell import Shell, by_option, command
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from perdure.runtime.definitions.program import Bound, Program
    from perdure.runtime.runtime import Runtime, SessionView

NAMED = 12  # programs, in a sentence about those that are loaded


class Dollars(click.FloatRange):
    """An amount; `nan` and `inf` are numbers to Python, and no limit to anybody."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        amount = float(super().convert(value, param, ctx))
        if not isfinite(amount):
            self.fail(f"{value} is no amount of money.", param, ctx)
        return amount


@command
@click.argument("what", required=False, metavar='[PROGRAM|"PROMPT"]')
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--model", metavar="NAME", help="Who answers a prompt: anthropic:NAME, openai:NAME, scripted:FILE.")
@click.option("--instructions", metavar="TEXT", help="What the model is told first.")
@click.option(
    "--tool", "tools", metavar="NAME", multiple=True, help="A tool that it may use; by default those that ship."
)
@click.option("--allow", metavar="TOOL", multiple=True, help="A tool that needs no yes of a person.")
@click.option(
    "--turns",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many model calls it may make before a person is asked.",
)
@click.option("--cost", type=Dollars(min=0), metavar="DOLLARS", help="How much it may spend before a person is asked.")
@click.option("--network", is_flag=True, help="Let its commands reach the network.")
@click.option("--unsandboxed", is_flag=True, help="Let its commands run where no sandbox can be had.")
@click.option("--detach", is_flag=True, help="Let it go on in the background, and return at once.")
@click.option("--once", is_flag=True, help="End with the answer instead of waiting for the next message.")
@click.option("--id", metavar="NAME", help="The session's name; with a name that is known, that session goes on.")
@click.option("--repo", metavar="DIR", help="The repository that it works on.")
@click.option("--owner", metavar="NAME", help="Whose session it is; by default whoever starts it.")
@click.option("--title", metavar="TEXT", help="What it is about, for people.")
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    default=0,
    show_default=True,
    help="Workers run sessions with a higher number first.",
)
@by_option
def run(
    shell: Shell,
    what: str | None,
    arguments: tuple[str, ...],
    id: str | None,
    repo: str | None,
    owner: str | None,
    title: str | None,
    priority: int,
    detach: bool,
    **said: Any,
) -> int:
    """Run a program or an agent as a session, to its end or to where only a person can go on.

    A prompt is for an agent: perdure run "fix the failing test" --model NAME. It works in --repo, by default here. A
    piped text is the prompt, or is attached to the one that is given (up to 256 KiB; ignored if nothing comes in 10 s).
    A VALUE that is JSON is taken as JSON. Run it again under the same --id after a crash: it goes on from there.

    At a terminal everything is shown as it happens, and what is asked is asked there. Ctrl-C stops between two acts;
    Ctrl-C again leaves at once, and a worker goes on in the background. A SIGINT that was ignored at the start stays
    ignored. Elsewhere it exits with 3 when it waits for a person, with 4 when another process has the session.
    """
    from perdure.cli import agent_prompt
    from perdure.cli.live.local_run import move

    shell.load()
    check(id, repo)
    if is_for_model(what, arguments, said["model"]):
        limits = {key: value for key in ("turns", "cost") if (value := said.pop(key)) is not None}
        lists = {key: list(said.pop(key)) for key in ("tools", "allow")}
        bound = agent_prompt.bind(shell, what, limits=limits, **lists, **said)
        repo, title = repo or ".", title or bound.arguments["prompt"].strip().splitlines()[0][:80]
    else:
        bound = bind(find(what or ""), arguments)

    async def begin(runtime: Runtime) -> SessionView:
        about = {"owner": owner or shell.by, "repository": repo, "title": title}
        return await runtime.start(bound, id=id, priority=priority, **about)

    return start_detached(shell, begin) if detach else move(shell, begin, create=True)


def check(id: str | None, repo: str | None) -> None:
    """Refuse a name and a folder that cannot be meant, before anything is begun."""
    if id is not None and not id.strip():
        raise ConfigError("The session's id is empty.", hint="Leave --id out, and a name is made.")
    if repo is not None and not Path(repo).is_dir():
        raise ConfigError(
            f"--repo {repo} is a file." if Path(repo).exists() else f"There is no folder {repo}.",
            hint="Name the folder that it works in, with --repo DIR.",
        )


def is_for_model(what: str | None, arguments: Sequence[str], model: str | None) -> bool:
    """Whether it is a prompt. Words that a shell took apart are one without its quotes, and are not dropped."""
    from perdure.cli.agent_prompt import is_prompt
    from perdure.runtime.definitions.program import PROGRAMS

    found = is_prompt(what, model)
    words = [one for one in arguments if "=" not in one]
    if (found and arguments) or (words and what not in PROGRAMS):
        whole = shlex.join([" ".join([what or "", *arguments]).strip()])
        raise ConfigError(
            f"After {what!r} comes {(words or arguments)[0]!r}, which is no argument of a program.",
            hint=f"Quote a prompt, so that it is one argument: perdure run {whole} --model NAME",
        )
    return found


def start_detached(shell: Shell, begin: Callable[[Runtime], Awaitable[SessionView]]) -> int:
    """Begin a session, leave it to a worker in the background, and say how to come back."""
    from perdure.cli.live.drivers import background, check
    from perdure.cli.store_access import run_with_runtime
    from perdure.cli.text.plain import safe

    check(shell)
    view = run_with_runtime(shell, begin, create=True)
    worker = background(shell, view.uid)
    if shell.json:
        shown = {"id": view.id, "uid": view.uid, "program": view.program, "title": view.title}
        shell.echo_json({"type": "session.started", "session": shown, "worker": worker.shown()})
        return 0
    shell.echo(safe(view.id))
    shell.note(f"It goes on in the background: worker {worker.process.pid}, log {worker.log}.")
    shell.note(f"`{shell.suggest('attach', view.id, app=True)}` shows it, and takes your answers.")
    return 0


def find(name: str) -> Program[..., Any]:
    """A program that is loaded, or a sentence about those that are."""
    from perdure.agent.files.branch_merge import MERGE_PROGRAM
    from perdure.errors import ProgramUnknown
    from perdure.runtime.definitions.program import PROGRAMS

    if name in PROGRAMS:
        return PROGRAMS[name]
    theirs = sorted(PROGRAMS.keys() - {"agent", MERGE_PROGRAM})  # those are begun with a prompt, and by a merge
    more = f" and {len(theirs) - NAMED} more" if len(theirs) > NAMED else ""
    loaded = f"Loaded are {', '.join(theirs[:NAMED])}{more}." if theirs else "None is loaded."
    missing = "Name the module that defines it: --app MODULE, or `app` in perdure.toml."
    hint = "Check the name, or add the module that defines it with --app." if theirs else missing
    raise ProgramUnknown(f"There is no program {name!r}. {loaded}", hint=hint)


def bind(program: Program[..., Any], given: Sequence[str]) -> Bound[Any]:
    """The program with its arguments, validated."""
    from perdure.runtime.definitions.program import Bound

    names = list(program.signature.json_schema().get("properties", {}))
    usage = " ".join(["perdure", "run", program.name, *(f"{name}=VALUE" for name in names)])
    values: dict[str, Any] = {}
    for one in given:
        key, equals, text = one.partition("=")
        if not equals or not key:
            raise ConfigError(f"{one!r} is not of the form key=value.", hint=f"Type `{usage}`.")
        if key in values:
            raise ConfigError(f"{key} is given twice.", hint="Give each argument once.")
        values[key] = parsed(text)
    try:
        return Bound(program, program.signature.bind((), values))
    except ConfigError as error:
        quote = "Text that looks like a number is quoted twice: name='\"7\"'."
        raise ConfigError(error.message, hint=f"Type `{usage}`. {quote if values else ''}".rstrip()) from None


def parsed(text: str) -> Any:
    """JSON as what it says, anything else as text."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
