"""The templates, with filters that make text of other people harmless. Everything is escaped unless it is `Markup`."""

from __future__ import annotations

from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from perdure.clock import brief_span, format_time, span
from perdure.console import markup
from perdure.console.page import path_of
from perdure.console.text import vocabulary
from perdure.domain.caller import Place
from perdure.ids import digest

FILES = {
    "console.js": "text/javascript; charset=utf-8",
    "console.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
GO = {
    "i": "inbox", "s": "sessions", "l": "ledger", "f": "fleet", "p": "policy", "a": "audit", "d": "doctor",
    "t": "timeline of a session", "h": "its history",
}  # fmt: skip
DID = {
    "approved": "Your approval is recorded.",
    "denied": "Your denial is recorded.",
    "settled": "The verdict is recorded.",
    "answered": "The answer is recorded.",
    "sent": "The message is sent.",
    "resumed": "The session may continue.",
    "paused": "The session pauses after what it does now.",
    "interrupted": "The session was asked to stop what it does now.",
    "cancelled": "The session was asked to end.",
    "closed": "The session is closed.",
    "retried": "The session is retried.",
    "forked": "This is the new branch.",
    "withdrawn": "The approval is withdrawn.",
    "changed": "The change is made.",
    "granted": "The exemption is granted.",
    "revoked": "The exemption is revoked.",
    "triggered": "A session of the schedule was started.",
}


@cache
def static_file(name: str) -> bytes:
    """A file that the pages refer to."""
    return resources.files("perdure.console").joinpath("static", name).read_bytes()


@cache
def version_of(name: str) -> str:
    """A name for the content of such a file, so that browsers keep it until it changes."""
    return digest(static_file(name))[:12]


def make_environment() -> Environment:
    made = Environment(
        loader=PackageLoader("perdure.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters |= {
        "mark": markup.mark, "line": markup.line, "ticks": markup.ticks, "block": markup.block, "json": markup.json,
        "short_json": markup.short_json, "span": span, "brief_span": brief_span,
        "money": markup.money, "time": format_time,
        "words": markup.words, "error": markup.error, "is_tall": markup.is_tall,
        "waited_for": vocabulary.waited_for, "wait_words": vocabulary.wait_words,
        "action_words": vocabulary.action_words,
    }  # fmt: skip
    made.globals |= {"in_queue": Place, "path": path_of, "version_of": version_of, "DID": DID, "GO": GO}
    return made
