"""OpenAI Agents SDK: an agent with a session in SQLite. In `.peers/openai_agents`; `outside.py` has the command line.

Its page on sessions: a session keeps the history of a conversation across runs, so that a later run with the same
session continues it. The model is a class of ours that asks for one effect after another, by the history that it is
shown; no key is needed. `SQLiteSession` leaves `synchronous` at SQLite's default, FULL.
"""

import asyncio
import json
import os
from contextlib import contextmanager
from pathlib import Path

import conversation
import outside
from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, function_tool
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

PEER = {
    "system": "openai_agents",
    "packages": ["openai-agents"],
    "page": "https://openai.github.io/openai-agents-python/sessions/",
    "substrates": ["sqlite"],
    "settings": {"SQLite": "synchronous=FULL, its default"},
    "configurations": {
        "documented": "a tool for each effect and a SQLiteSession; the run is started again with the same session",
        "key": "the same, with an idempotency key made of session id and effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a file that the tool syncs before it acts, and a check by hand",
    },
    "cannot": [
        "resume a run: a session keeps the conversation, and the page promises no durable execution",
        "say that a tool was started: the session has a call and its output",
        "refuse a second attempt of a tool after a crash, without a mark written by hand",
    ],
}


class Script(Model):
    """Asks for the first effect without an output in the history, until all are there."""

    def __init__(self, effects):
        self.effects = effects

    async def get_response(self, system_instructions, input, *more, **named):
        items = [] if isinstance(input, str) else input
        done = sum(isinstance(one, dict) and one.get("type") == "function_call_output" for one in items)
        if done >= self.effects:
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            return ModelResponse(output=[said], usage=Usage(), response_id=None)
        call = ResponseFunctionToolCall(
            arguments=json.dumps({"n": done + 1}), call_id=f"call-{done + 1}", name="act", type="function_call"
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *more, **named):
        raise NotImplementedError


def place(options):
    return Path(options.state, f"{options.trial}.db")


def run(options):
    asked = []

    @function_tool(failure_error_function=None)
    def act(n: int) -> str:
        if options.configuration != "once":
            return outside.act(options, n)
        mark = Path(options.state, f"{options.trial}-{n}.mark")
        if mark.exists():
            asked.append(n)
            raise outside.Asked(n)
        write_synced(mark)
        return outside.act(options, n)

    agent = Agent(name="worker", tools=[act], model=Script(options.effects))
    session = SQLiteSession(options.trial, str(place(options)))
    begun = asyncio.run(session.get_items(limit=1))
    config = RunConfig(tracing_disabled=True)
    try:
        asyncio.run(Runner.run(agent, "continue" if begun else "do the effects", session=session, run_config=config))
    except Exception:
        if asked:
            raise outside.Asked(asked[0]) from None
        raise


def write_synced(path):
    with path.open("wb") as file:
        file.write(outside.PROCESS.encode())
        file.flush()
        os.fsync(file.fileno())


def inspect(options):
    if not place(options).exists():
        return outside.states([], [], options.effects)
    items = asyncio.run(SQLiteSession(options.trial, str(place(options))).get_items())
    done = range(1, sum(one.get("type") == "function_call_output" for one in items) + 1)
    marks = [n for n in range(1, options.effects + 1) if Path(options.state, f"{options.trial}-{n}.mark").exists()]
    return outside.states(done, marks, options.effects)


class Turns(Script):
    """Calls a tool, then answers."""

    async def get_response(self, system_instructions, input, *more, **named):
        called = input[-1].get("type") == "function_call_output"
        self.effects = 0 if called else len(input) + 1  # the answer of a script that has ended, or one more call
        return await super().get_response(system_instructions, input, *more, **named)


class Conversation:
    """A SQLiteSession, which the runner reads whole for each run, as its page says."""

    def build(self, options, lines):
        asyncio.run(self.session(options).add_items([{"role": role, "content": text} for role, text in lines]))

    def session(self, options):
        return SQLiteSession("conversation", str(Path(options.state, "conversation.db")))

    @contextmanager
    def talk(self, options):
        @function_tool
        def act(n: int) -> str:
            return conversation.text(conversation.SHORT, n)

        session, agent = self.session(options), Agent(name="worker", tools=[act], model=Turns(0))
        config = RunConfig(tracing_disabled=True)
        with asyncio.Runner() as runner:
            yield (
                lambda: runner.run(Runner.run(agent, "continue", session=session, run_config=config)),
                lambda: len(runner.run(session.get_items())),
            )
        session.close()


if __name__ == "__main__":
    outside.main(PEER, run=run, inspect=inspect, conversation=Conversation())
