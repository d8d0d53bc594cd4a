"""`perdure run`: start or continue a session of a program or of an agent, in this process."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import click

from perdure.agent.agent import Agent
from perdure.cli.agent_prompt import bind_agent, is_prompt, named_agent
from perdure.cli.background_worker import check_background, start_worker
from perdure.cli.live.local_run import run_locally
from perdure.cli.options.each_line import start_each
from perdure.cli.options.start import given_start_options, owner_of_start, start_options
from perdure.cli.program_arguments import bind_program, find_program
from perdure.cli.shell import Shell, by_option, command
from perdure.cli.store_access import run_with_runtime
from perdure.cli.text.plain import safe
from perdure.cli.workers.serving_worker import find_serving_worker
from perdure.config import is_service
from perdure.domain.text import content_text
from perdure.domain.worker import WorkerRecord
from perdure.errors import ConfigError
from perdure.runtime.definitions.program import PROGRAMS, Bound
from perdure.runtime.runtime import Runtime, SessionView


class Dollars(click.FloatRange):
    """An amount of money. Python accepts `nan` and `inf` as numbers; as limits they make no sense."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        amount = float(super().convert(value, param, ctx))
        if not isfinite(amount):
            self.fail(f"{value} is not an amount of money.", param, ctx)
        return amount


@command
@click.argument("what", required=False, metavar='[PROGRAM|AGENT|"PROMPT"]')
@click.argument("arguments", nargs=-1, metavar='[KEY=VALUE|"PROMPT"]...')
@click.option("-p", "--prompt", metavar="TEXT", help="The prompt; needed for a prompt of one word.")
@click.option("--model", metavar="NAME", help="The model: anthropic:NAME, openai:NAME, scripted:FILE.")
@click.option("--instructions", metavar="TEXT", help="Instructions to the model, before the prompt.")
@click.option(
    "--tool", "tools", metavar="NAME", multiple=True, help="A tool that it may use (default: all shipped tools)."
)
@click.option("--allow", metavar="TOOL", multiple=True, help="Run this tool without asking.")
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Ask a person after N model calls.")
@click.option("--cost", type=Dollars(min=0), metavar="DOLLARS", help="Ask a person after spending so much.")
@click.option("--network", is_flag=True, help="Give its commands access to the network.")
@click.option("--unsandboxed", is_flag=True, help="Run its commands even if no sandbox is available.")
@click.option("--detach", is_flag=True, help="Run it in the background, and return immediately.")
@click.option("--once", is_flag=True, help="End with the first answer instead of waiting for the next message.")
@click.option("--id", metavar="NAME", help="The session id. A session with this id is continued.")
@click.option("--repo", metavar="DIR", help="The repository that it works on.")
@click.option("--owner", metavar="NAME", help="The owner of the session (default: the user who starts it).")
@click.option("--title", metavar="TEXT", help="A title for people.")
@click.option("--each", metavar="FILE", help="Start a session for each line of FILE (- for standard input).")
@start_options
@by_option
def run(
    shell: Shell, what: str | None, arguments: tuple[str, ...], id: str | None, repo: str | None, owner: str | None,
    title: str | None, detach: bool, prompt: str | None, each: str | None, **options: Any,
) -> int:  # fmt: skip
    """Run a program or an agent as a session, until it ends or needs a person.

    A prompt starts an agent: perdure run "fix the failing test" --model NAME. It works in --repo (default: the current
    folder). An agent that your code defines is started by its name: perdure run AGENT "fix the failing test" --app
    MODULE. One word is always a name; give a prompt of one word with -p.

    @path in a prompt attaches that text file, and \\@path does not. Text piped to standard input is the prompt, or is
    attached to the given prompt (ignored if nothing arrives within 10 s). Attachments have up to 256 KiB together. A
    VALUE that is JSON is parsed as JSON. After a crash, run it again with the same --id to continue.

    At a terminal, everything is shown as it happens, and questions are asked there. Escape or Ctrl-C stops what the
    session does; a second Ctrl-C leaves, and a worker continues in the background. A SIGINT that was ignored at the
    start stays ignored. The exit code is 3 if the session needs a person, and 4 if another process holds it.

    With --each, sessions are only started, and workers run them. Each line of FILE is a JSON object of arguments, and
    may have the session's "id"; with --id, the ids are that text and a number. The same command starts what is missing.
    """
    shell.load()
    check_options(id, repo)
    starting = given_start_options(options)
    about: dict[str, Any] = {"owner": owner_of_start(shell, owner), "repository": repo, "title": title}
    if each is not None:
        check_each(what, prompt, detach)
        return start_each(shell, find_program(what or ""), arguments, each, id, about | starting)
    if (asked := find_prompt(what, arguments, prompt)) is None:
        bound = bind_program(find_program(what or "", elsewhere=is_service(shell.store)), arguments)
    else:
        bound = bind_prompt(shell, asked, Path(repo or "."), options)
        words = (content_text(bound.arguments["prompt"]) or "").strip()
        about |= {"repository": repo or ".", "title": title or words.splitlines()[0][:80]}

    async def begin(runtime: Runtime) -> SessionView:
        return await runtime.start(bound, id=id, **about, **starting)

    return start_detached(shell, begin) if detach else run_locally(shell, begin, create=True)


def bind_prompt(shell: Shell, asked: AgentPrompt, folder: Path, options: dict[str, Any]) -> Bound[Any]:
    """The agent that a prompt is for, with the prompt and its options."""
    limits = {key: value for key in ("turns", "cost") if (value := options.pop(key)) is not None}
    lists = {key: list(options.pop(key)) for key in ("tools", "allow")}
    return bind_agent(shell, asked.agent, asked.text, folder, limits=limits, **lists, **options)


def check_each(what: str | None, prompt: str | None, detach: bool) -> None:
    """Refuse --each with what it cannot start."""
    if detach:
        raise ConfigError("--each cannot be used with --detach.", hint="Leave --detach out: workers run the sessions.")
    if prompt is not None or what not in PROGRAMS:
        raise ConfigError("--each needs the name of a program.", hint="perdure run PROGRAM --each FILE")


def check_options(id: str | None, repo: str | None) -> None:
    """Refuse an id and a folder that cannot be meant, before anything starts."""
    if id is not None and not id.strip():
        raise ConfigError("The session id is empty.", hint="Leave --id out to have one generated.")
    if repo is not None and not Path(repo).is_dir():
        raise ConfigError(
            f"--repo {repo} is a file." if Path(repo).exists() else f"There is no folder {repo}.",
            hint="Name the folder to work in with --repo DIR.",
        )


class AgentPrompt(NamedTuple):
    """What an agent is asked. Without an agent it is that of the command line; without a text it is piped in."""

    agent: Agent | None
    text: str | None


def find_prompt(what: str | None, arguments: Sequence[str], prompt: str | None) -> AgentPrompt | None:
    """The prompt among the arguments; None if they name a program. Words without quotes are refused."""
    agent = named_agent(what)
    if agent is not None and any(one.partition("=")[0] in ("prompt", "once") for one in arguments):
        return None  # its arguments are given as those of any program
    if agent is None and prompt is None and not is_prompt(what):
        words = [one for one in arguments if "=" not in one]
        if words and what not in PROGRAMS:
            raise unquoted(what, words[0], [what or "", *arguments])
        return None
    texts = [what] if agent is None and what is not None else []
    texts += arguments
    if prompt is not None and texts:
        raise ConfigError("The prompt is given twice.", hint="Give it with -p, or as an argument.")
    if len(texts) > 1:
        raise unquoted(what, arguments[0], texts, "" if agent is None else f"{agent.name} ")
    return AgentPrompt(agent, prompt if prompt is not None else texts[0] if texts else None)


def unquoted(what: str | None, word: str, words: Sequence[str], agent: str = "") -> ConfigError:
    """The error for a prompt that is not one argument."""
    example = f"perdure run {agent}{shlex.join([' '.join(words).strip()])}" + ("" if agent else " --model NAME")
    return ConfigError(
        f"{word!r} after {what!r} is not an argument of a program.",
        hint=f"Quote a prompt, so that it is one argument: {example}",
    )


def start_detached(shell: Shell, begin: Callable[[Runtime], Awaitable[SessionView]]) -> int:
    """Start a session, leave it to a worker in the background, and print how to return to it.

    If workers of a service take it, no other worker is started.
    """
    if is_service(shell.store):
        from perdure.cli.remote.sessions import start_on_workers

        return start_on_workers(shell, begin)
    check_background(shell)

    async def start(runtime: Runtime) -> tuple[SessionView, WorkerRecord | None]:
        view = await begin(runtime)
        return view, await find_serving_worker(runtime, view)

    view, serving = run_with_runtime(shell, start, create=True)
    worker = start_worker(shell, view.uid) if serving is None else None
    if shell.json:
        shown = {"id": view.id, "uid": view.uid, "program": view.program, "title": view.title}
        about = {"worker": worker and worker.to_json(), "served_by": serving and serving.holder}
        shell.echo_json({"type": "session.started", "session": shown, **about})
        return 0
    shell.echo(safe(view.id))
    if worker is not None:
        shell.note(f"It runs in the background: worker {worker.process.pid}, log {worker.log}.")
    elif serving is not None:
        shell.note(f"Workers of this store run it, such as {safe(serving.holder)}.")
    shell.note(f"Run `{shell.suggest('attach', view.id, app=True)}` to watch it and answer its questions.")
    return 0
