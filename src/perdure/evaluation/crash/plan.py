"""The trials of the crash workload: which system is killed where, at a sink that can do what.

The short form takes a sample: both forms kill at each kind of place in each system, but the short one not for each
ability of the sink. The order spreads the systems, so that a busy moment of the machine meets all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from perdure.evaluation.workload import Form, Trial

SQLITE = "perdure/sqlite/default/full"
SYSTEMS = (
    "blob/file/result-only/fsync",
    "blob/file/intent/fsync",
    "blob/file/intent+key/fsync",
    "perdure/files/default/fsync",
    SQLITE,
    "perdure/postgres/default/on",
)
ABILITIES = ("nothing", "key", "lookup", "undo")
COMPARED = ("sink:before", "sink:after", "sink:late")  # every row of a comparison is killed at these
SINK_KILLS = ("sink:before", "sink:after", "sink:replied", "sink:late")
FAULTS = ("error", "cut", "late_cut")
POINTS = ("commit.before", "commit.after", "answer.after", "act.before", "act.begun", "act.after")
LOG_POINTS = ("log.before", "log.written", "log.synced")
RECOVERY_POINTS = ("probe.after", "commit.before", "commit.after")
OWN_RULES = ("pure", "joint")  # of Perdure alone: a look at the sink, a row in its own database
AGENTS = ("perdure/files/agent/fsync", "perdure/sqlite/agent/full", "perdure/postgres/agent/on")
CHECKPOINT = 5  # after the pause in the model, the commits are: reply, dispatch, acknowledgment, result, checkpoint
CHECKPOINT_SEND = 13  # about there: what a client of PostgreSQL sends before it is not always the same
OWN_POINTS = ("point:commit.before", "point:commit.after", "point:answer.after")
REPEATS = 5  # of each trial in the full form
# A planted mistake, what the sink can do, the kill at which the mistake shows, and the verdict that must not be zero.
PLANTED = (
    ("blob/file/record-first/fsync", "nothing", "sink:before", "lost"),
    ("blob/file/forgets-intent/fsync", "nothing", "sink:after", "blind"),
    ("perdure/sqlite/wrong-rule/full", "nothing", "sink:after", "doubled"),
    ("perdure/sqlite/needless-question/full", "key", "sink:after", "needless"),
)
# Peers, each as its documentation recommends and with what an expert adds by hand, with its strongest durability.
PEERS = (
    ("langgraph/sqlite", "synced"),
    ("langgraph/postgres", "synced"),
    ("dbos/sqlite", "synced"),
    ("dbos/postgres", "synced"),
    ("temporal/sqlite", "synced"),
    ("restate/server", "synced"),
    ("absurd/postgres", "synced"),
    ("pydantic_ai/sqlite", "synced"),
    ("openai_agents/sqlite", "synced"),
    ("prefect/sqlite", "synced"),
    ("adk/sqlite", "synced"),
    ("claude/files", "synced"),
)
FULL_FORM_ONLY = ("prefect/sqlite", "adk/sqlite", "claude/files")  # their processes take several seconds to start
# In the short form these are run as documented and with a key only.
BRIEFLY = ("langgraph/postgres", "dbos/postgres", "pydantic_ai/sqlite", "openai_agents/sqlite")
SERVERS = ("temporal", "restate")
BY_HAND = {"documented": "nothing", "key": "key", "lookup": "lookup", "once": "nothing"}  # the sink that it needs
Cell = tuple[str, dict[str, Any]]


def trials(form: Form, rounds: int = 0) -> list[Trial]:
    """Every trial of a form, so often as it says or as `rounds` does."""
    cells = _spread([*_full(), *_full_peers()] if form is Form.FULL else [*_short(), *_short_peers()])
    repeats = rounds or (REPEATS if form is Form.FULL else 1)
    made = [_trial(system, parameters, number) for number in range(repeats) for system, parameters in cells]
    planted = [
        _trial(system, {"ability": ability, "kill": kill, "planted": True}, number)
        for number in range(repeats)
        for system, ability, kill, _ in PLANTED
    ]
    return made + planted


def _spread(cells: list[Cell]) -> list[Cell]:
    """The same cells with those of each system at equal distances: a trial that waits has others at its side."""
    number, place = Counter(_family(system) for system, _ in cells), Counter[str]()
    places = []
    for system, _ in cells:
        place[_family(system)] += 1
        places.append((place[_family(system)] - 0.5) / number[_family(system)])
    return [cell for _, cell in sorted(zip(places, cells, strict=True), key=lambda one: one[0])]


def _family(system: str) -> str:
    return "/".join(system.split("/")[:2])


def rank(system: str) -> tuple[int, int]:
    """The place of a system in tables: ours first; then peers, each as documented before what was added by hand."""
    name, _, configuration, _ = system.split("/")
    families = list(dict.fromkeys([*map(_family, SYSTEMS), *(peer for peer, _ in PEERS)]))
    own = {"blob": [one.split("/")[2] for one in SYSTEMS[:3]], "perdure": ["default", "agent"]}
    configurations = own.get(name, [*BY_HAND, "default"])
    return _place(families, _family(system)), _place(configurations, configuration)


def _place(names: list[str], name: str) -> int:
    return names.index(name) if name in names else len(names)


def _trial(system: str, parameters: dict[str, Any], number: int) -> Trial:
    name, substrate, configuration, _ = system.split("/")
    where = {"perdure": [substrate], "blob": [name]}.get(name, [name, substrate])
    words = [*where, configuration, *(str(one) for one in parameters.values())]
    text = "-".join(word for word in words if word not in ("default", "True"))
    return Trial(id=f"{text}.{number}".replace(":", "-").replace("+", "-"), system=system, parameters=parameters)


def _syncs(system: str, most: int) -> list[str]:
    """Where a tracer kills: at a sync, at a rename; a client of a server syncs nothing, so where it sends."""
    if "/postgres/" in system:
        return [f"syscall:send:{n}" for n in range(1, most + 1)]
    renames = ["syscall:rename:1"] if system.startswith("blob") else []
    return [*renames, *(f"syscall:sync:{n}" for n in range(1, most + 1))]


def _points(system: str) -> list[str]:
    if system.startswith("blob"):
        return []
    return [f"point:{name}" for name in POINTS + (LOG_POINTS if "/files/" in system else ())]


def _short() -> Iterator[Cell]:
    for ability, kill in product(ABILITIES, COMPARED):
        yield from ((system, {"ability": ability, "kill": kill}) for system in SYSTEMS)
    some = (
        {"ability": "nothing", "kill": "between"},
        {"ability": "nothing", "kill": "sink:replied"},
        {"ability": "nothing", "fault": "error"},
        {"ability": "undo", "fault": "cut"},
        {"ability": "lookup", "fault": "late_cut"},
        {"ability": "key", "kill": "sink:after", "again": "sink:after"},
    )
    for parameters in some:
        asks = "blob/file/intent/fsync" if "again" in parameters else ""  # it asks and sends nothing, so no kill is met
        yield from ((system, parameters) for system in SYSTEMS if system != asks)
    for system in SYSTEMS:
        yield from ((system, {"ability": "nothing", "kill": kill}) for kill in _syncs(system, 2))
        yield system, {"ability": "lookup", "kill": "sink:after", "again": _syncs(system, 1)[-1]}
    yield from (
        ("perdure/sqlite/default/full", {"ability": "nothing", "kill": kill}) for kill in _points("perdure/sqlite/")
    )
    yield "perdure/sqlite/default/full", {"ability": "lookup", "kill": "sink:after", "again": "point:probe.after"}
    yield "perdure/postgres/default/on", {"ability": "nothing", "kill": "server:act"}
    yield from _own_rules(1)
    for system in AGENTS:
        around = [CHECKPOINT - 1, CHECKPOINT, CHECKPOINT + 1]
        for kill in (
            "between",
            "sink:after",
            *_agent_syncs(system, around, range(CHECKPOINT_SEND - 1, CHECKPOINT_SEND + 6, 2)),
        ):
            yield system, {"ability": "nothing", "kill": kill}


def _agent_syncs(system: str, syncs: Iterable[int], sends: Iterable[int]) -> list[str]:
    """Where a tracer kills an agent; a client of PostgreSQL sends several times for a commit."""
    kind, numbers = ("send", sends) if "/postgres/" in system else ("sync", syncs)
    return [f"syscall:{kind}:{number}" for number in numbers]


def _full_agents() -> Iterator[Cell]:
    for ability, system in product(ABILITIES, AGENTS):
        around = _agent_syncs(system, range(1, 9), range(1, 25))
        for kill in ("between", *SINK_KILLS, *around):
            yield system, {"ability": ability, "kill": kill}
        kill = _agent_syncs(system, [CHECKPOINT + 1], [CHECKPOINT_SEND + 5])[0]
        for again in _agent_syncs(system, range(1, 4), range(1, 4)):
            yield system, {"ability": ability, "kill": kill, "again": again}


def _own_rules(most: int) -> Iterator[Cell]:
    for system, ability in product((SQLITE, "perdure/postgres/default/on"), OWN_RULES):
        for kill in ("between", *_syncs(system, most), *OWN_POINTS):
            yield system, {"ability": ability, "kill": kill}


def _full() -> Iterator[Cell]:
    for ability, system in product(ABILITIES, SYSTEMS):
        for kill in ("between", *SINK_KILLS, *_syncs(system, 8), *_points(system)):
            yield system, {"ability": ability, "kill": kill}
        for fault in FAULTS:
            yield system, {"ability": ability, "fault": fault}
        for again in ("sink:after", *_syncs(system, 4)):
            yield system, {"ability": ability, "kill": "sink:after", "again": again}
        if system.startswith("perdure"):
            for name in RECOVERY_POINTS:
                yield system, {"ability": ability, "kill": "sink:after", "again": f"point:{name}"}
        if "/postgres/" in system:
            yield from ((system, {"ability": ability, "kill": kill}) for kill in ("server:act", "server:idle"))

    yield from _own_rules(8)
    yield from _full_agents()


def _short_peers() -> Iterator[Cell]:
    for peer, durability in PEERS:
        if peer in FULL_FORM_ONLY:
            continue
        by_hand = ("documented", "key") if peer in BRIEFLY else BY_HAND
        for configuration, kill in product(by_hand, COMPARED):
            yield f"{peer}/{configuration}/{durability}", {"ability": BY_HAND[configuration], "kill": kill}
        if peer in BRIEFLY:
            continue
        documented = f"{peer}/documented/{durability}"
        yield documented, {"ability": "nothing", "kill": "sink:replied"}
        yield documented, {"ability": "nothing", "kill": "sink:after", "again": "sink:after"}
        yield from ((documented, {"ability": "nothing", "kill": kill}) for kill in _peer_calls(peer, 1))


def _full_peers() -> Iterator[Cell]:
    for (peer, durability), (configuration, ability) in product(PEERS, BY_HAND.items()):
        system = f"{peer}/{configuration}/{durability}"
        for kill in (*SINK_KILLS, *_peer_calls(peer, 4)):
            yield system, {"ability": ability, "kill": kill}
        yield system, {"ability": ability, "kill": "sink:after", "again": "sink:after"}
    for peer, kill in product(("langgraph", "dbos", "absurd"), ("server:act", "server:idle")):
        yield f"{peer}/postgres/documented/synced", {"ability": "nothing", "kill": kill}
    for substrate, kill in product(("sqlite", "postgres"), SINK_KILLS):
        yield f"langgraph/{substrate}/default/async", {"ability": "nothing", "kill": kill}


def _peer_calls(peer: str, most: int) -> list[str]:
    """Where a tracer kills a peer: its own syncs, or what it sends after the reply of the sink."""
    own = peer.endswith("/sqlite") and not peer.startswith(SERVERS)
    return [f"syscall:{'sync' if own else 'send'}:{n}" for n in range(1, most + 1)]
