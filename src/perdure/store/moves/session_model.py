"""The model that a person chooses for an agent's session; it answers from the next model call on."""

from __future__ import annotations

from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, IllegalMove
from perdure.ids import check_text
from perdure.store.move import Log, StoreTransaction, outsider_move
from perdure.store.moves import wait
from perdure.store.moves.session_end import CLOSED, is_message_wait

LONGEST = 1000  # characters; a script is named by its path
MODEL = "model"  # the `ref` of a timer that a model asked for, and `about` of the wait after it could not answer


@outsider_move
def set_model(log: Log, model: str) -> None:
    """Record the choice. A session that waits because of its last model becomes ready: the new one is asked now."""
    if len(check_text("The model", model)) > LONGEST:
        raise ConfigError(f"The name of the model has {len(model):,} characters, and at most {LONGEST} are allowed.")
    if log.head.status in (Status.DONE, Status.CANCELLED):
        raise IllegalMove(f"Session {log.head.id} is {log.head.status}; its model is not used any more.")
    log.tx.run("session.set_model", uid=log.uid, model=model)
    log.append("session.described", rows={"session": {"model": model}})
    log.actor, actor = CLOSED, log.actor
    for asked in wait.open_of_session(log.tx, log.uid):
        stopped = is_message_wait(asked) and isinstance(asked.detail, dict) and asked.detail.get("about") == MODEL
        if stopped or (asked.kind == WaitKind.TIMER and asked.ref == MODEL):
            wait.settle(log, asked, None)
    log.actor = actor


def chosen_model(tx: StoreTransaction, uid: str) -> str | None:
    """The model that a person chose for a session; None: the one that its agent names."""
    row = tx.one("session.chosen_model", uid=uid)
    return None if row is None else row[0]
