"""Claude Agent SDK: a session that is resumed by its id. In `.peers/claude`; `outside.py` has the command line.

Its page on sessions: a session keeps the conversation on disk, and `resume` continues it. The model is a stand-in in
this process, which asks for one effect after another, by the results that it is shown; no key is needed. The command
line that the SDK starts gets a home of its own, no settings of the user, and reaches nothing else.
"""

import asyncio
import json
import os
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import outside
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

PEER = {
    "system": "claude",
    "packages": ["claude-agent-sdk"],
    "page": "https://docs.claude.com/en/api/agent-sdk/sessions",
    "substrates": ["files"],
    "settings": {"session": "JSON lines in a file, as the SDK writes them: no setting syncs them"},
    "configurations": {
        "documented": "a tool for each effect and a session that is resumed by its id",
        "key": "the same, with an idempotency key made of session id and effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with a file that the tool syncs before it acts, and a check by hand",
    },
    "cannot": [
        "resume a run: a session keeps the conversation, and the model decides what is called again",
        "say that a tool was started: the session has a call and its result",
        "refuse a second attempt of a tool after a crash, without a mark written by hand",
    ],
}
NAME = "mcp__effects__act"


def done_in(messages):
    """How many results of the tool a conversation has; an error or a note that a call was interrupted is none."""
    parts = [part for one in messages if isinstance(one.get("content"), list) for part in one["content"]]
    results = [part for part in parts if part.get("type") == "tool_result" and not part.get("is_error")]
    return len({part["tool_use_id"] for part in results if "done:" in json.dumps(part.get("content"))})


class StandIn(BaseHTTPRequestHandler):
    """The model: the next call, or the end."""

    effects = 3
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "count_tokens" in self.path:
            return self.reply("application/json", json.dumps({"input_tokens": 1}))
        done = done_in(asked["messages"])
        if any(one["name"] == NAME for one in asked.get("tools", [])) and done < self.effects:
            call = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:20]}", "name": NAME}
            part, reason = call | {"input": {"n": done + 1}}, "tool_use"
        else:
            part, reason = {"type": "text", "text": "done"}, "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": f"msg_{uuid.uuid4().hex[:20]}", "type": "message", "role": "assistant", "model": "stand-in",
                   "content": [part], "stop_reason": reason, "stop_sequence": None, "usage": usage}  # fmt: skip
        if not asked.get("stream"):
            return self.reply("application/json", json.dumps(message))
        text = part["type"] == "text"
        delta = {"type": "text_delta", "text": "done"} if text else {"type": "input_json_delta"}
        delta |= {} if text else {"partial_json": json.dumps(part["input"])}
        begun = part | ({"text": ""} if text else {"input": {}})
        events = [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": begun},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        self.reply("text/event-stream", "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events))

    def reply(self, kind, text):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words):
        """Say nothing."""


async def work(options):
    home, asked = Path(options.state, options.trial), []
    home.mkdir(exist_ok=True)

    @tool("act", "Do an effect.", {"n": int})
    async def act(given):
        mark = home / f"{given['n']}.mark"
        if options.configuration == "once":
            if mark.exists():
                asked.append(given["n"])
                raise outside.Asked(given["n"])
            mark.touch()
            os.sync()
        await asyncio.to_thread(outside.act, options, given["n"])
        return {"content": [{"type": "text", "text": f"done: {given['n']}"}]}

    model = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    StandIn.effects = options.effects
    threading.Thread(target=model.serve_forever, daemon=True).start()
    for name in [one for one in os.environ if one.startswith(("CLAUDE", "ANTHROPIC"))]:
        del os.environ[name]
    own = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "config"), "ANTHROPIC_API_KEY": "stand-in",
           "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}", "DISABLE_AUTOUPDATER": "1",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}  # fmt: skip
    session = str(uuid.uuid5(uuid.NAMESPACE_URL, options.trial))
    which = {"resume": session} if transcript(options) else {"session_id": session}
    server = create_sdk_mcp_server(name="effects", tools=[act])
    given = ClaudeAgentOptions(tools=[], allowed_tools=[NAME], mcp_servers={"effects": server}, env=own, cwd=str(home),
                               setting_sources=[], model="claude-sonnet-4-5", **which)  # fmt: skip
    async for _ in query(prompt="continue" if "resume" in which else "do the effects", options=given):
        if asked:
            raise outside.Asked(asked[0])


def transcript(options):
    """The lines of the session, as they are on disk."""
    files = Path(options.state, options.trial, "config", "projects").glob("*/*.jsonl")
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def inspect(options):
    done = done_in([one["message"] for one in transcript(options) if isinstance(one.get("message"), dict)])
    marks = [int(path.stem) for path in Path(options.state, options.trial).glob("*.mark")]
    return outside.states(range(1, done + 1), marks, options.effects)


if __name__ == "__main__":
    outside.main(PEER, run=lambda options: asyncio.run(work(options)), inspect=inspect)
