"""A small service with GitHub's comments: two per page, no idempotency keys. Each comment is in a synced log.

python github.py LOG [HOLD]: prints its port. While the file HOLD exists, comments are stored and not answered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PAGE = 2
LOG = Path(sys.argv[1])
HOLD = Path(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOG.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"path": self.path, "body": sent["body"]}) + "\n")
            log.flush()
            os.fsync(log.fileno())
        while HOLD.exists():
            time.sleep(0.01)
        self._answer(201, _comments(self.path)[-1])

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        page = int(parse_qs(where.query).get("page", ["1"])[0])
        found = _comments(where.path)
        host = f"http://{self.headers['Host']}{where.path}"
        more = {"Link": f'<{host}?page={page + 1}>; rel="next"'} if len(found) > page * PAGE else {}
        self._answer(200, found[(page - 1) * PAGE : page * PAGE], more)

    def _answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        with suppress(BrokenPipeError):  # the client was killed
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Not on standard error: the log is the file."""


def _comments(path: str) -> list[dict[str, str]]:
    lines = [json.loads(line) for line in LOG.read_text(encoding="utf-8").splitlines()]
    here = [line for line in lines if line["path"] == path]
    return [
        {"body": line["body"], "html_url": f"https://github.example{path}/{number}"} for number, line in enumerate(here)
    ]


if __name__ == "__main__":
    LOG.touch()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
