"""A review that posts one comment. Kill it at any time and run it again: there is one comment.

    python -m perdure.testing.sink_process comments           in another terminal: a small HTTP service; prints its port
    export COMMENTS_URL=http://127.0.0.1:PORT/review
    python examples/one_comment.py review.db                  reads the diff, decides, posts

    COMMENTS_STOP=1           pauses when the service has the comment and Perdure does not know it yet,
                              so that you can kill -9 it
    COMMENTS_REPLAY=escalate  declares the tool without its probe: after a kill, a person is asked

The service knows nothing about Perdure or about keys: every POST creates a comment. So the tool hides its key in the
comment, and the probe searches for it there. You can use GitHub in the same way.
"""

import http.client
import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import perdure
from perdure import Call, Outcome, Session, program, tool

REPLAY: Any = os.environ.get("COMMENTS_REPLAY", "probe")


@tool(replay=REPLAY, inflight="1s", safe_errors=(ConnectionRefusedError,))
def post_comment(call: Call, pr: int, body: str) -> str:
    """Post a comment; returns its id. `call.key` is the same in every attempt, and no other call has it."""
    posted = ask("POST", f"pulls/{pr}/comments", {"body": marked(body, call.key)})
    if "COMMENTS_STOP" in os.environ:
        print("stopped: the service has the comment, and Perdure does not know it yet", flush=True)
        sys.stdin.read()  # until it is killed, or the process that started it has ended
    return str(posted["id"])


@post_comment.probe
def _(call: Call, pr: int, body: str) -> Outcome:
    """Did this exact call happen? Runs when the outcome of an attempt is unknown."""
    for comment in ask("GET", f"pulls/{pr}/comments"):
        if comment["body"]["body"] == marked(body, call.key):
            return Outcome.happened(comment["id"], reference=f"comment {comment['id']}")
    return Outcome.absent()  # accepted only `inflight` after the call has ended, when no request can be on its way


def marked(body: str, key: str) -> str:
    return f"{body}\n<!-- {key} -->"


def read_diff(pr: int) -> str:
    print(f"reading the diff of pull request {pr}", flush=True)
    return "-    retries = 3\n+    retires = 3"


@program
async def review(s: Session, pr: int) -> str:
    diff = await s.step("read", read_diff, pr)  # computed once, then recorded
    decision = await s.decide("comment, do not block", because="it is only a typo", then="post_comment")
    comment = await s.do(post_comment, pr=pr, body=f"A typo?\n{diff}")  # one effect in the ledger, whatever happens
    await decision.settle(f"comment {comment}")
    return comment


def ask(method: str, path: str, body: Any = None) -> Any:
    """One request to the service. It does not handle crashes."""
    where = urlsplit(os.environ["COMMENTS_URL"])
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, f"{where.path}/{path}", content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    if answer.status >= 400:
        raise RuntimeError(f"{answer.status} {said.decode()}")  # no proof: the comment may exist
    return json.loads(said)


def main(store: str, session: str = "review-7") -> None:
    try:
        print("done: comment", perdure.run(review.bind(pr=7), id=session, store=store), flush=True)
    except perdure.SessionWaiting as waiting:
        print(f"waiting: {waiting}", flush=True)
        sys.exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
