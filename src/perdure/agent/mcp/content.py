"""What a server returned, as the result of a tool: bounded text; binary content is only named."""

from __future__ import annotations

from typing import Any

from perdure.agent.tools.result import LIMIT, ToolResult, plain, short, text_result
from perdure.errors import ConfigError
from perdure.ids import encode
from perdure.secrets.redaction import redact

MOST = 1000  # parts of one result


def result_of(server: str, answer: Any) -> ToolResult:
    """A result of the package as the result of a tool. Nothing here raises: the call has happened."""
    texts = [_text(part) for part in answer.content[:MOST]]
    if len(answer.content) > MOST:
        texts.append(f"[{len(answer.content) - MOST} more parts are not shown]")
    if not any(texts) and answer.structured_content is not None:
        try:
            texts = [encode(answer.structured_content)]
        except Exception:  # any JSON value of a stranger
            texts = ["[the result cannot be shown]"]
    text = redact("\n".join(texts)) or "(nothing)"
    more: dict[str, Any] = {"origin": f"mcp:{server}", "failed": bool(answer.is_error)}
    try:
        return text_result(text, **more)
    except ConfigError:  # there is no folder for the rest of a long text
        return ToolResult(f"{plain(text[:LIMIT])}\n[cut: {LIMIT} of {len(text)} characters are shown]", **more)


def _text(part: Any) -> str:
    if isinstance(text := getattr(part, "text", None), str):
        return text
    resource = getattr(part, "resource", None)
    if isinstance(text := getattr(resource, "text", None), str):
        return text
    data = getattr(part, "data", None) or getattr(resource, "blob", None) or ""
    kind = getattr(part, "mime_type", None) or getattr(resource, "mime_type", None) or getattr(part, "type", "content")
    where = getattr(part, "uri", None)
    about = f" at {short(str(where))}" if where else f", about {len(data) * 3 // 4:,} bytes"
    return f"[{short(str(kind), 100)}{about}: not shown]"
