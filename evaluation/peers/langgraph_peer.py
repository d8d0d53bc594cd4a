"""LangGraph: a graph with one node for each effect, and a saver. In `.peers/langgraph`.

Its page on durable execution recommends `durability="sync"` for the strongest guarantee: a checkpoint is written
before the next node starts. The default is "async": it is written while the next node runs. Results of tasks inside
one node are saved in the background even with "sync", as kills show, so we use nodes, which is stronger. Its SQLite
saver opens the database in WAL mode with the default of SQLite, `synchronous=FULL`: a commit is synced.
"""

import operator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypedDict

import conversation
import outside
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

PEER = {
    "system": "langgraph",
    "packages": ["langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"],
    "page": "https://docs.langchain.com/oss/python/langgraph/durable-execution",
    "substrates": ["sqlite", "postgres"],
    "settings": {"durability": "sync, except in `default`", "SQLite": "WAL, FULL", "PostgreSQL": "synced commits"},
    "configurations": {
        "default": "a node for each effect, durability='async' (the default)",
        "documented": "a node for each effect, durability='sync'",
        "key": "as documented, with an idempotency key made of thread id and effect",
        "lookup": "as documented, with a lookup at the service before it sends",
        "once": "as documented, with a node before it that stores a mark of the process, and interrupt() by hand",
    },
    "cannot": [
        "say that a node was started: a checkpoint holds results, so started and not started are one state",
        "refuse a second attempt of a node, without a mark written by hand",
        "fence a process that was taken for dead: two processes may run one thread id",
    ],
}


class Work(TypedDict):
    done: Annotated[list[str], operator.add]
    mark: tuple[int, str]


@contextmanager
def saver(options):
    if options.database:
        with PostgresSaver.from_conn_string(options.database) as found:
            found.setup()
            yield found
    else:
        with SqliteSaver.from_conn_string(str(Path(options.state, f"{options.trial}.db"))) as found:
            yield found


def graph(options, checkpointer):
    built = StateGraph(Work)
    before = START
    for n in range(1, options.effects + 1):
        if options.configuration == "once":
            built.add_node(f"mark_{n}", lambda state, n=n: {"mark": (n, outside.PROCESS)})
            built.add_edge(before, f"mark_{n}")
            before = f"mark_{n}"
        built.add_node(f"act_{n}", lambda state, n=n: {"done": [act(options, state, n)]})
        built.add_edge(before, f"act_{n}")
        before = f"act_{n}"
    built.add_edge(before, END)
    return built.compile(checkpointer=checkpointer)


def act(options, state, n):
    if options.configuration == "once" and state["mark"][1] != outside.PROCESS:
        interrupt({"effect": n})  # a person answers with Command(resume=...)
    return outside.act(options, n)


def run(options):
    config = {"configurable": {"thread_id": options.trial}}
    durability = "async" if options.configuration == "default" else "sync"
    with saver(options) as checkpointer:
        begun = checkpointer.get_tuple(config) is not None
        first = None if begun else {"done": []}  # None continues the thread from its last checkpoint
        for part in graph(options, checkpointer).stream(first, config, durability=durability):
            if "__interrupt__" in part:
                raise outside.Asked(part["__interrupt__"][0].value["effect"])


def inspect(options):
    with saver(options) as checkpointer:
        found = graph(options, checkpointer).get_state({"configurable": {"thread_id": options.trial}}).values
    done = range(1, len(found.get("done", [])) + 1)
    return outside.states(done, [found["mark"][0]] if "mark" in found else [], options.effects)


class Conversation:
    """A thread whose state is the list of its messages: the graph of the tutorial, with a model of ours."""

    class Talk(TypedDict):
        messages: Annotated[list[tuple[str, str]], operator.add]

    def __init__(self):
        self.thread = {"configurable": {"thread_id": "conversation"}}

    def compiled(self, checkpointer):
        built = StateGraph(self.Talk)
        for name, role in (("call", "assistant"), ("tool", "tool"), ("answer", "assistant")):
            line = (role, conversation.text(conversation.SHORT, len(name)))
            built.add_node(name, lambda state, line=line: {"messages": [line]})
        for before, after in ((START, "call"), ("call", "tool"), ("tool", "answer"), ("answer", END)):
            built.add_edge(before, after)
        return built.compile(checkpointer=checkpointer)

    def build(self, options, lines):
        with saver(options) as checkpointer:
            self.compiled(checkpointer).update_state(self.thread, {"messages": lines}, as_node="answer")

    @contextmanager
    def talk(self, options):
        with saver(options) as checkpointer:
            graph = self.compiled(checkpointer)
            yield (
                lambda: graph.invoke({"messages": [("user", "continue")]}, self.thread, durability="sync"),
                lambda: len(graph.get_state(self.thread).values["messages"]),
            )


if __name__ == "__main__":
    outside.main(PEER, run=run, inspect=inspect, conversation=Conversation())
