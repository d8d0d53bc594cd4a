"""Google ADK: an agent in a resumable app with a session in SQLite. In `.peers/adk`; `outside.py` has the command line.

Its page on resuming agents: an app with `ResumabilityConfig(is_resumable=True)` continues an invocation that was
interrupted, when it is run again with its invocation id; tools run at least once and should be idempotent. The model is
a class of ours that asks for one effect after another, by the history that it is shown; no key is needed.
`SqliteSessionService` leaves `synchronous` at SQLite's default, FULL.
"""

import asyncio
import logging
import os
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.ERROR)

import outside  # noqa: E402
from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.apps import App, ResumabilityConfig  # noqa: E402
from google.adk.models import BaseLlm, LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions.sqlite_session_service import SqliteSessionService  # noqa: E402
from google.genai import types  # noqa: E402

PEER = {
    "system": "adk",
    "packages": ["google-adk"],
    "page": "https://google.github.io/adk-docs/runtime/resume/",
    "substrates": ["sqlite"],
    "settings": {"synchronous": "FULL, the default of SQLite", "is_resumable": "True"},
    "configurations": {
        "documented": "a tool for each effect in a resumable app; the invocation is run again with its id",
        "key": "the same, with an idempotency key made of session id and effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a file that the tool syncs before it acts, and a check by hand",
    },
    "cannot": [
        "say that a tool was started: the session has a call and its response",
        "refuse a second attempt of a tool after a crash, without a mark written by hand",
        "fence a process that was taken for dead: two processes may resume one invocation",
    ],
}
USER = {"app_name": "evaluation", "user_id": "worker"}


class Script(BaseLlm):
    """Asks for the first effect without a response in the history, until all are there."""

    effects: int

    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts or []]
        done = sum(part.function_response is not None for part in parts)
        call = types.Part(function_call=types.FunctionCall(name="act", args={"n": done + 1}))
        said = types.Part(text="done") if done >= self.effects else call
        yield LlmResponse(content=types.Content(role="model", parts=[said]))


def service(options):
    return SqliteSessionService(str(Path(options.state, f"{options.trial}.db")))


async def work(options):
    asked = []

    def act(n: int) -> dict:
        """Do an effect."""
        if options.configuration == "once":
            mark = Path(options.state, f"{options.trial}-{n}.mark")
            if mark.exists():
                asked.append(n)
                raise outside.Asked(n)
            write_synced(mark)
        return {"id": outside.act(options, n)}

    sessions = service(options)
    agent = LlmAgent(name="worker", model=Script(model="script", effects=options.effects), tools=[act])
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name=USER["app_name"], root_agent=agent, resumability_config=resumable)
    runner = Runner(app=app, session_service=sessions)
    found = await sessions.get_session(**USER, session_id=options.trial)
    if found is None:
        found = await sessions.create_session(**USER, session_id=options.trial)
    if found.events:
        start = {"invocation_id": found.events[-1].invocation_id}
    else:
        start = {"new_message": types.Content(role="user", parts=[types.Part(text="do the effects")])}
    try:
        async for _ in runner.run_async(user_id=USER["user_id"], session_id=options.trial, **start):
            pass
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
    found = asyncio.run(service(options).get_session(**USER, session_id=options.trial))
    responses = [one for event in (found.events if found else []) for one in event.get_function_responses()]
    marks = [n for n in range(1, options.effects + 1) if Path(options.state, f"{options.trial}-{n}.mark").exists()]
    return outside.states(range(1, len(responses) + 1), marks, options.effects)


if __name__ == "__main__":
    outside.main(PEER, run=lambda options: asyncio.run(work(options)), inspect=inspect)
