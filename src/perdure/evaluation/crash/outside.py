"""What the processes under test do at the sink: the same requests for every system."""

from __future__ import annotations

from typing import Any

from perdure.testing.sink import SinkClient, content_id

PATH, PURE = "effects", "pure-"


def body(n: int) -> dict[str, Any]:
    """The content of effect `n`."""
    return {"n": n}


def post(ability: str, n: int, key: str | None) -> None:
    """Do effect `n`. A sink that honours keys gets one; any other gets a marker, by which the effect can be found."""
    if ability == "key":
        SinkClient.here().post(key, body(n), path=PATH)
    else:
        SinkClient.here().post(None, body(n), marker=key, path=PATH)


def look(n: int) -> None:
    """Look for effect `n`, which changes nothing: what a pure effect does."""
    SinkClient.here().find(key=f"{PURE}{n}", path=PATH)


def is_there(n: int, key: str | None) -> bool:
    """Whether effect `n` happened: by its marker, or by its content if it was sent without one."""
    if key is not None:
        return bool(SinkClient.here().find(key=key, path=PATH))
    return any(one["body"] == body(n) for one in SinkClient.here().find(path=PATH))


def undo(n: int, key: str | None) -> None:
    """Remove effect `n`, if it is there."""
    if key is not None:
        SinkClient.here().delete(key=key, path=PATH)
    else:
        SinkClient.here().delete(id=content_id(PATH, body(n)), path=PATH)
