"""The agent of the command line: its model, instructions, tools and limits are arguments of its session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.agent.agent import CONTEXT, DEFAULT_TOOLS, INSTRUCTIONS, Agent, limits_from
from perdure.agent.model import Model, get_model, provider_of
from perdure.agent.permissions import AskFirst
from perdure.agent.settings import Settings
from perdure.agent.toolbox import Toolbox, is_known
from perdure.domain.session import SessionRecord
from perdure.errors import ConfigError
from perdure.runtime.definitions.program import Bound
from perdure.runtime.definitions.prompt import Prompt, prompt_content
from perdure.runtime.definitions.signature import Signature
from perdure.runtime.ledger.policy import Intent

if TYPE_CHECKING:
    from perdure.runtime.session import Session

NAME = "agent"


class StoredAgent(Agent[str]):
    """An agent that is defined by the arguments of its session."""

    def __init__(self) -> None:
        super().__init__(NAME, model="", tools=())
        self.signature = Signature(_stored, given=["s"])

    def bind_stored(self, prompt: Prompt, *, model: str, **said: Any) -> Bound[str]:
        """Bind the arguments of a session. They are checked now, so that a mistake is reported before it starts."""
        content, files = prompt_content(prompt)
        bound: Bound[str] = Bound(self, self.signature.bind((content,), {"model": model} | said), files)
        self.settings(bound.arguments)
        return bound

    def open_model(self, name: str, arguments: dict[str, Any]) -> Model:
        same = provider_of(name) == provider_of(arguments["model"])
        return get_model(name, base_url=arguments.get("base_url") if same else None)

    def settings(self, arguments: dict[str, Any], chosen: str | None = None) -> Settings:
        model = self.open_model(chosen or arguments["model"], arguments)
        toolbox = Toolbox(arguments.get("tools") or DEFAULT_TOOLS)
        words, limits = arguments.get("instructions") or INSTRUCTIONS, limits_from(arguments.get("limits"))
        return Settings(model, toolbox, words, limits, arguments.get("context") or CONTEXT)

    def missing(self, session: SessionRecord) -> str | None:
        return next((name for name in session.arguments.get("tools") or () if not is_known(name)), None)

    def asking(self, session: SessionRecord) -> Callable[[Intent], str]:
        return AskFirst(frozenset(session.arguments.get("allow") or ()))

    def may(self, session: SessionRecord) -> tuple[bool, bool]:
        return bool(session.arguments.get("network")), bool(session.arguments.get("unsandboxed"))


async def _stored(
    s: Session, prompt: str | list[dict[str, Any]], once: bool = False, model: str = "",
    instructions: str | None = None, tools: list[str] | None = None, limits: dict[str, Any] | None = None,
    base_url: str | None = None, context: int | None = None, allow: list[str] | None = None, network: bool = False,
    unsandboxed: bool = False,
) -> str:  # fmt: skip
    """The signature of a stored agent; the agent's loop runs instead of this function."""
    raise ConfigError("An agent is run by its loop.")


STORED = StoredAgent()
