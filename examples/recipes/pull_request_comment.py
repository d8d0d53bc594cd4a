"""Comment on a GitHub pull request once, although GitHub has no idempotency keys.

    GITHUB_TOKEN=... python pull_request_comment.py review-7 owner/name 7 "Looks good."

The tool hides its key in the comment, and the probe searches the comments for it. Perdure runs the probe after a crash,
when it does not know whether the comment was posted.
"""

import os
import sys
from collections.abc import Iterator
from typing import Any

import httpx

import perdure
from perdure import Call, Outcome, Session, program, tool


def github() -> httpx.Client:
    headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {os.environ.get('GITHUB_TOKEN', '')}"}
    return httpx.Client(base_url=os.environ.get("GITHUB_URL", "https://api.github.com"), headers=headers, timeout=30)


@tool(
    replay="probe",
    inflight=os.environ.get("GITHUB_INFLIGHT", "30s"),  # how long a request can still arrive after its sender died
    safe_errors=(httpx.ConnectError,),
    targets=("pr:{repository}#{number}",),
)
def comment_on_pull_request(call: Call, repository: str, number: int, text: str) -> str:
    """Returns the address of the comment."""
    with github() as service:
        answer = service.post(f"repos/{repository}/issues/{number}/comments", json={"body": marked(text, call.key)})
    answer.raise_for_status()
    return str(answer.json()["html_url"])


@comment_on_pull_request.probe
def _(call: Call, repository: str, number: int, text: str) -> Outcome:
    for comment in comments(repository, number):
        if comment["body"] == marked(text, call.key):
            return Outcome.happened(comment["html_url"], reference=comment["html_url"])
    return Outcome.absent()


def comments(repository: str, number: int) -> Iterator[dict[str, Any]]:
    """All comments, page by page: a probe that reads only the first page would report a comment as absent."""
    url: str | None = f"repos/{repository}/issues/{number}/comments?per_page=100"
    with github() as service:
        while url is not None:
            page = service.get(url)
            page.raise_for_status()
            yield from page.json()
            url = page.links.get("next", {}).get("url")


def marked(text: str, key: str) -> str:
    return f"{text}\n\n<!-- {key} -->"


@program
async def review_comment(s: Session, repository: str, number: int, text: str) -> str:
    return await s.do(comment_on_pull_request, repository=repository, number=number, text=text)


if __name__ == "__main__":
    if not os.environ.get("GITHUB_TOKEN"):
        sys.exit("Set GITHUB_TOKEN first.")  # in the tool it would be too late: a failed attempt may have happened
    name, where, pull_request, words = sys.argv[1:]  # the same name again is the same comment
    bound = review_comment.bind(repository=where, number=int(pull_request), text=words)
    print(perdure.run(bound, id=name, store=os.environ.get("COMMENT_STORE")))
