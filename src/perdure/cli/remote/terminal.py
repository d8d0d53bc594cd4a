"""A person at a terminal with a session of a service: shown live, asked here, and left at any time."""

from __future__ import annotations

from perdure.agent.agent import Agent
from perdure.cli.live.conversation import Conversation
from perdure.cli.live.run_report import RunReport, left_lines
from perdure.cli.live.screen import Screen, make_screen
from perdure.cli.live.session_renderer import CONTEXT, LogRenderer, Renderer, conversation_renderer
from perdure.cli.prompts.wait_prompt import is_for_message
from perdure.cli.remote.access import CommandRuntime
from perdure.cli.remote.service_source import EffectNames, ServiceDriver, ServiceSource
from perdure.cli.shell import Shell
from perdure.domain.event import Event
from perdure.domain.session import Status
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.queries import SessionView

AGENT_ARGUMENTS = {"prompt", "once"}
BEGIN = 50  # events in which the prompt of an agent is looked for


async def converse(
    shell: Shell, runtime: CommandRuntime, view: SessionView, after: int, *, agent: bool, shown: bool
) -> RunReport:
    """Show a session from an event on, until it ends or the person leaves, and report what is known then.

    Nothing more is read, so that a person can leave while the service cannot be reached.
    """
    renderer, screen = await make_renderer(shell, runtime, view, after, agent=agent)
    source = ServiceSource(runtime, view)
    conversation = Conversation(shell, runtime, view, renderer, screen, source)
    conversation.driver = ServiceDriver()
    conversation.open_keyboard()
    left = await conversation.run()
    now = runtime.store.clock.now()
    if conversation.end == "detached" or left.status in (Status.READY, Status.RUNNING):
        shell.echo(*left_lines(shell, left.id, continues=True))
        return RunReport(left, [], now, complete=True)
    waits_for_message = agent and bool(source.waits) and all(map(is_for_message, source.waits))
    return RunReport(left, source.waits, now, "" if waits_for_message else None, shown=shown)


async def make_renderer(
    shell: Shell, runtime: CommandRuntime, view: SessionView, after: int, *, agent: bool
) -> tuple[Renderer, Screen]:
    """The renderer of a session from an event on, and the screen that it draws on."""
    screen, now = make_screen(), runtime.store.clock.now
    if not agent:
        return LogRenderer(screen, now, EffectNames(runtime, view.uid).of, after), screen
    if after > 0:
        screen.line(f"… {after} earlier events; `{shell.suggest('attach', view.id)}` shows all", "dim")
    made = conversation_renderer(screen, now, after)
    made.prime(await events_between(runtime, view.uid, max(0, after - CONTEXT), after))
    return made, screen


async def events_between(runtime: CommandRuntime, uid: str, after: int, last: int) -> list[Event]:
    """The events of a session after a number, to another."""
    found: list[Event] = []
    if after >= last:
        return found
    async for event in runtime.events(uid, after=after):
        if event.number > last:
            break
        found.append(event)
    return found


async def is_agent(runtime: CommandRuntime, view: SessionView) -> bool:
    """Whether a model drives the session.

    That is known from its code if it is loaded here, otherwise from its first message. Before there is one, it is taken
    from the arguments, which are those of an agent.
    """
    if view.program in PROGRAMS:
        return isinstance(PROGRAMS[view.program], Agent)
    first = [one for one in await events_between(runtime, view.uid, 0, BEGIN) if one.kind == "message"]
    if first:
        return isinstance(first[0].body, dict) and "model" in first[0].body
    return isinstance(view.arguments, dict) and view.arguments.keys() >= AGENT_ARGUMENTS
