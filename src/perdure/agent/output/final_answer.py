"""A typed final answer: the model delivers it as the argument of a tool, and it is checked before it counts.

    deliver    the model calls `final_answer`; the value is stored in the line of the transcript that answers the call
    refuse     a value that does not fit is reported to the model with the error, and it may call again
    remind     an answer in plain text is no answer: a note asks the model to call the tool
    stop       after `MOST` refusals and reminders in a row a person is asked, or a session that runs once fails

The tool is the same for every provider, and calling it is no effect: the line is the record.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from perdure.agent import call_report
from perdure.agent.call_report import CallReport
from perdure.agent.history.transcript import RETRIED, Line, OpenCall, State
from perdure.agent.toolbox import AgentTool, make_tool
from perdure.ids import decode

NAME = "final_answer"
REMINDER = "reminder"  # of a note: what it is about
MOST = 5
INSTRUCTIONS = f"Deliver your final answer by calling the tool {NAME}. Call it alone, when the work is done."
NOT_ALONE = f"{NAME} must be called alone, after the results of the other calls are known. Call it again."


def final_answer_tool(output: Any) -> AgentTool:
    """The tool that delivers an answer of this type."""

    def final_answer(answer: Any) -> Any:
        """Deliver the final answer, and end the task."""
        return answer

    final_answer.__annotations__ = {"answer": output, "return": output}
    return AgentTool(make_tool(final_answer, NAME, replay="pure", reach="none"), kind="answer")


def deliver(offered: AgentTool, call: OpenCall, arguments: dict[str, Any]) -> CallReport:
    """Take the answer, whose form is checked already; it is stored as it will be read."""
    if len(call.line.body.get("calls") or ()) > 1:
        return call_report.not_started(NOT_ALONE)
    signature = offered.tool.signature
    text = signature.encode_result(signature.unbind(arguments)["answer"])
    return call_report.done(text, output=decode(text))


def _restarts(line: Line) -> bool:
    """Whether the attempts are counted from this line on: a message, or the retry of a failed session."""
    return line.role == "user" or line.body.get("about") == RETRIED


def demand(state: State) -> dict[str, Any] | None:
    """The note for a model that has not delivered its answer: a reminder, or after too many the end of its attempts."""
    newest = state.newest()
    if newest is None or "output" in newest.body or state.stopped() is not None:
        return None
    recent = list(takewhile(lambda line: not _restarts(line), reversed(state.lines)))
    tries = [line for line in recent if line.body.get("name") == NAME or line.body.get("about") == REMINDER]
    in_text = state.answer() is not None
    if len(tries) + in_text >= MOST:
        last = next((str(line.body["content"]) for line in tries if line.role == "tool"), "It did not call the tool.")
        content = f"The model did not deliver a valid final answer in {MOST} attempts. {last}"
        return {"role": "note", "about": "limit", "content": content}
    content = f"Your answer was not delivered: {INSTRUCTIONS}"
    return {"role": "note", "about": REMINDER, "content": content} if in_text else None
