"""The model of a run: the agent's own, or the one that a person chose, before the run or during it."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from perdure.agent.history.transcript import State
from perdure.agent.ledger import AgentLedger
from perdure.errors import ConfigError, ModelError

NOT_USABLE = (401, 402, 403, 404)  # HTTP: the key or the name of the model is wrong, or there is no credit


class ModelChoice:
    """Follows the choice of a person while an agent runs."""

    def __init__(self, ledger: AgentLedger) -> None:
        self._ledger = ledger
        self._name = ledger.run.session.model

    def follow(self, name: str | None) -> bool:
        """Use the chosen model from the next call on; returns whether it is another one than before."""
        if name is None or name == self._name:
            return False
        try:
            model = self._ledger.open_model(name)
        except ConfigError as error:  # it has no key here; another process may have one
            raise self._ledger.run.give_up(error) from error
        self._name = name
        self._ledger.settings = msgspec.structs.replace(self._ledger.settings, model=model)
        return True

    def stop_note(self, state: State) -> dict[str, Any] | None:
        """The note that explains why the agent waits for a person. A failure of another model does not count."""
        why = state.stopped()
        is_other = why is not None and why.get("tried") not in (None, self._ledger.settings.model.name)
        return None if is_other else why

    def failure_note(self, error: ModelError, once: bool) -> dict[str, Any]:
        """The line that reports a failure of the model, and what a person can do about it."""
        hint = "" if error.hint == ModelError.hint else error.hint
        why = f"The model could not answer: {error.message} {hint}".rstrip()
        if error.details.get("status") in NOT_USABLE and not once:
            id = shlex.quote(self._ledger.run.session.id)
            why += f" Change the model with `perdure resume {id} --model NAME`."
        return {"role": "note", "about": "model", "content": why, "tried": self._ledger.settings.model.name}
