"""Pydantic AI with DBOS: an agent whose tools are steps. In `.peers/pydantic_ai`; `outside.py` has the command line.

Its page on durable execution with DBOS wraps the agent in `DBOSAgent`, whose run is a workflow and whose model requests
are steps; a tool that does I/O is decorated with `@DBOS.step`. A step that was interrupted runs again. The model is a
function, which asks for one effect after another, so no key is needed. On SQLite, DBOS leaves `synchronous` at FULL.
"""

import asyncio
from pathlib import Path

import outside
from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSAgent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

PEER = {
    "system": "pydantic_ai",
    "packages": ["pydantic-ai-slim", "dbos"],
    "page": "https://ai.pydantic.dev/durable_execution/dbos/",
    "substrates": ["sqlite", "postgres"],
    "settings": {"SQLite": "synchronous=FULL, its default"},
    "configurations": {
        "documented": "a DBOSAgent with a tool that is a step for each effect",
        "key": "the same, with an idempotency key made of workflow id and effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a step before it that stores a mark of the process, and a check by hand",
    },
    "cannot": [
        "say that a tool was started: only results of steps are stored",
        "refuse a second attempt of a tool after a crash, without a mark written by hand",
        "ask a person about an outcome after a crash: a deferred tool is approved before it runs",
    ],
}


def script(effects):
    """A model that calls `act` with 1, 2, 3, one after another."""

    def answer(messages, info):
        done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if done == effects:
            return ModelResponse(parts=[TextPart("done")])
        call = ToolCallPart("act", {"n": done + 1}, tool_call_id=f"call-{done + 1}")
        return ModelResponse(parts=[call])

    return FunctionModel(answer)


def launch(options, *, recover):
    """DBOS over the store of this trial; an inspection gets another executor id, so that it recovers nothing."""
    where = options.database or f"sqlite:///{Path(options.state, options.trial)}.sqlite"
    DBOS(
        config={
            "name": "evaluation",
            "system_database_url": where,
            "executor_id": options.trial if recover else f"{options.trial}-inspect",
            "application_version": "1",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )

    @DBOS.step()
    def mark(n: int) -> str:
        return outside.PROCESS

    @DBOS.step()
    def effect(n: int, marked: str) -> str:
        if options.configuration == "once":
            return outside.act_once(options, n, marked)
        return outside.act(options, n)

    agent = Agent(script(options.effects), name="worker")

    @agent.tool_plain
    async def act(n: int) -> str:
        marked = mark(n) if options.configuration == "once" else ""
        return effect(n, marked)

    durable = DBOSAgent(agent)
    DBOS.launch()
    return durable


async def work(options):
    agent = launch(options, recover=True)
    with SetWorkflowID(options.trial):  # a known id returns the result of the workflow that is there
        await agent.run("do the effects")


def run(options):
    asyncio.run(work(options))


def inspect(options):
    launch(options, recover=False)
    steps = DBOS.list_workflow_steps(options.trial) or []
    names = [step["function_name"].split(".")[-1] for step in steps if step["error"] is None]
    done = range(1, names.count("effect") + 1)
    return outside.states(done, range(1, names.count("mark") + 1), options.effects)


if __name__ == "__main__":
    outside.main(PEER, run=run, inspect=inspect)
