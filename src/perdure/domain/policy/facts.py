"""Facts: everything about a call that a policy may look at. Only what is in here can change a judgement."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from perdure.domain.literals import ReachWord

Action = Literal["do", "undo", "model"]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One call as a policy sees it. Where a fact is unknown it is None, and the stricter reading counts.

    `paths` are resolved: links are followed, and a path inside the session's folder is relative to it. `cost` is what
    the session has spent so far, in millionths of a dollar. `network` is whether a command can reach the network.
    """

    action: Action = "do"
    tool: str = ""
    replay: str = "escalate"
    reach: ReachWord = "outside"
    arguments: dict[str, Any] = {}
    targets: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    command: str | None = None
    remote: str | None = None
    branch: str | None = None
    repository: str | None = None
    sandbox: str | None = None
    network: bool | None = None
    cost: int = 0
    owner: str | None = None
    queue: str | None = None
    model: str | None = None
    session_id: str = ""
    origins: tuple[str, ...] = ()
