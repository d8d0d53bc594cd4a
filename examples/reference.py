"""One example for each public name. The reference page shows them, and a test runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perdure
from perdure import (
    Agent,
    Call,
    Gate,
    Intent,
    Outcome,
    PolicyAnswer,
    Runtime,
    Secret,
    Session,
    Transaction,
    program,
    tool,
)
from perdure.testing import ScriptedModel

Example = Callable[[Runtime], Awaitable[None]]
EXAMPLES: dict[str, Example] = {}  # by public name


def example(*names: str) -> Callable[[Example], Example]:
    """Register the example of some public names."""

    def register(function: Example) -> Example:
        EXAMPLES.update(dict.fromkeys(names, function))
        return function

    return register


POSTED: dict[str, str] = {}


@tool(replay="probe", inflight="1ms")
def post(call: Call, text: str) -> str:
    POSTED[call.key] = text
    return call.key[:8]


@post.probe
def find_post(call: Call, text: str) -> Outcome:
    return Outcome.happened(call.key[:8]) if call.key in POSTED else Outcome.absent()


@post.undo
def remove_post(call: Call, result: str | None, text: str) -> None:
    POSTED.pop(call.undoes or "", None)


@tool(replay="idempotent", gate=Gate("publish", quorum=1, expires="24h"))
def publish(text: str) -> None:
    print(text)


def compose(name: str) -> str:
    return f"Hello, {name}."


@program
async def greet(s: Session, name: str) -> str:
    text = await s.step("compose", compose, name)
    await s.do(post, text)
    return text


@program
async def publish_greeting(s: Session, name: str) -> str:
    await s.do(publish, f"Hello, {name}.")
    return name


@dataclass
class Order:
    item: str
    count: int


@program
async def take_order(s: Session) -> str:
    order = await s.receive(Order)
    if await s.approve(f"Ship {order.count} {order.item}"):
        await s.sleep("1ms")
        return "shipped"
    return str(await s.ask("What now?"))


@example("open", "Runtime")
async def open_a_store(_: Runtime) -> None:
    async with perdure.open("greetings.db", by="ada") as rt:
        session = await rt.start(greet.bind("Ada"), id="greet-ada")
        await rt.complete(session.id)
        print(await rt.result("greet-ada"))


@example("run")
async def run_here(_: Runtime) -> None:
    def main() -> None:
        print(perdure.run(greet.bind("Ada"), id="greet-ada", store="greetings.db"))

    await asyncio.to_thread(main)


@example("Worker")
async def run_in_the_background(_: Runtime) -> None:
    async with perdure.Worker("greetings.db", concurrency=8) as worker:
        await worker.runtime.start(greet.bind("Ada"), id="greet-ada")
        await worker.idle()


@example("Session", "program")
async def write_a_program(rt: Runtime) -> None:
    @program
    async def count_words(s: Session, text: str) -> int:
        number = await s.step("count", lambda text: len(text.split()), text)
        await s.do(post, f"{number} words")
        return number

    await rt.start(count_words.bind("to be or not to be"), id="count")
    await rt.complete("count")


@example("Program", "Bound")
async def bind_arguments(rt: Runtime) -> None:
    bound = greet.bind(name="Ada")
    await rt.start(bound, id="greet-ada")


@example("tool", "Tool", "Call")
async def declare_a_tool(_: Runtime) -> None:
    @tool(replay="idempotent", retry=5, timeout="30s")
    def charge(call: Call, cents: int) -> str:
        return f"charged {cents} with the idempotency key {call.key}"


@example("Outcome")
async def declare_a_probe(_: Runtime) -> None:
    @tool(replay="probe")
    def upload(call: Call, name: str) -> None:
        Path(name).write_text(call.key)

    @upload.probe
    def look(call: Call, name: str) -> Outcome:
        if not Path(name).exists():
            return Outcome.absent()
        return Outcome.happened() if Path(name).read_text() == call.key else Outcome.unknown("Another file is there.")


@example("Transaction")
async def write_to_the_same_database(_: Runtime) -> None:
    @tool(replay="joint")
    def debit(tx: Transaction, account: str, cents: int) -> None:
        tx.execute("update account set cents = cents - ? where name = ?", (cents, account))


@example("Secret")
async def declare_a_tool_that_takes_a_secret(_: Runtime) -> None:
    @tool(replay="idempotent")
    def publish_signed(token: Secret, text: str) -> None:
        print(f"{text}, signed with {len(token.reveal())} characters")

    token = Secret("env:PUBLISH_TOKEN")  # in a program: await s.do(publish_signed, token=token, text="Hello")
    print(token)  # [secret env:PUBLISH_TOKEN]


@example("Gate", "Approval")
async def ask_before_an_effect(rt: Runtime) -> None:
    await rt.start(publish_greeting.bind("Ada"), id="publish", owner="ada")
    await rt.run("publish")
    async for approval in rt.approvals(session="publish", decision="waiting"):
        await rt.approve(approval.id, by="grace", because="The text is right.")
    await rt.complete("publish")


@example("ApprovalDecision")
async def ask_for_approval(rt: Runtime) -> None:
    await rt.start(take_order.bind(), id="order")
    await rt.send("order", Order("pens", 2), message_id="o-1")
    waiting = await rt.run("order")
    await rt.approve(waiting.waits[0].id, by="grace", because="They are in stock.")
    assert (await rt.complete("order")).result == "shipped"


@example("Intent", "PolicyAnswer")
async def write_a_policy(_: Runtime) -> None:
    def careful(intent: Intent) -> PolicyAnswer:
        return "ask" if intent.tool == "publish" else "allow"

    async with perdure.open("memory:", policy=careful) as rt:
        await rt.start(greet.bind("Ada"), id="greet-ada")


@example("SessionView")
async def look_at_a_session(rt: Runtime) -> None:
    await rt.start(take_order.bind(), id="order")
    view = await rt.run("order")
    print(view.status, [wait.kind for wait in view.waits])


@example("Effect", "Event")
async def read_the_record(rt: Runtime) -> None:
    await rt.start(greet.bind("Ada"), id="greet-ada")
    await rt.complete("greet-ada")
    async for effect in rt.effects(session="greet-ada"):
        print(effect.tool, effect.intent, effect.state, effect.idempotency_key)
    async for event in rt.events("greet-ada"):
        print(event.number, event.kind, event.actor)


@example("Agent", "AgentResult")
async def ask_an_agent(rt: Runtime) -> None:
    model = ScriptedModel(["Four."])  # or "anthropic:claude-...", "openai:..."
    teacher = Agent("teacher", model=model, tools=[], instructions="Answer in one word.")
    answer = await teacher.run("What is two and two?", runtime=rt)
    print(answer.output)


@example("Limits")
async def limit_an_agent(_: Runtime) -> None:
    Agent("thrifty", model=ScriptedModel(["Done."]), tools=[], limits=perdure.Limits(turns=10))


@example("File")
async def attach_a_file(rt: Runtime) -> None:
    reader = Agent("list_reader", model=ScriptedModel(["A list of names."]), tools=[])
    names = perdure.File(data=b"Ada, Grace", name="names.txt")
    print((await reader.run(["What is this?", names], runtime=rt)).output)


@example("MCPServer")
async def offer_tools_of_a_server(_: Runtime) -> None:
    wiki = perdure.MCPServer("wiki", command=["mcp-wiki"], tools={"search": {"replay": "pure"}})
    Agent("librarian", model=ScriptedModel(["Done."]), tools=[], mcp=[wiki])


@example("Model")
async def use_a_model_of_your_own(_: Runtime) -> None:
    class Echo:
        name = "echo:1"

        async def reply(self, request: Any, on_text: Any) -> Any:
            raise perdure.ModelError("The model is not there.", retry=True)

    Agent("echoes", model=Echo(), tools=[])


@example("ToolResult")
async def return_text_and_facts(_: Runtime) -> None:
    @tool(replay="pure")
    def read_ticket(number: int) -> perdure.ToolResult:
        return perdure.ToolResult(f"Ticket {number} is open.", origin=f"ticket:{number}")


@example(
    "StreamEvent", "TextDelta", "TextDiscarded", "MessageAdded", "ToolCallStarted", "ToolCallFinished", "ToolOutput",
    "ModelRetry", "ApprovalRequested", "QuestionOpened", "DoubtOpened", "SessionFinished", "SessionParked",
)  # fmt: skip
async def stream_an_answer(rt: Runtime) -> None:
    poet = Agent("poet", model=ScriptedModel(["Roses are red."]), tools=[])
    async for event in poet.stream("Write a line.", runtime=rt):
        match event:
            case perdure.TextDelta():
                print(event.text, end="")
            case perdure.SessionFinished():
                print()


@example("connect")
async def use_a_service(_: Runtime) -> None:
    async with perdure.connect("https://perdure.example.org", token="prd_...", patience=0) as there:
        try:
            print(await there.get("review-7"))
        except perdure.StoreUnavailable as error:
            print(error.message)


@example("instrument")
async def report_to_opentelemetry(rt: Runtime) -> None:
    perdure.instrument()  # the global providers; pass others as `tracer_provider` and `meter_provider`
    await rt.complete((await rt.start(greet.bind("Ada"))).id)


@example("PerdureError")
async def handle_errors(rt: Runtime) -> None:
    try:
        await rt.get("missing")
    except perdure.PerdureError as error:
        print(error.code, error.message, error.hint, error.retry)
