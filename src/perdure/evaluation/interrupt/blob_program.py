"""The same program over session blobs: a list of steps, and in the document the number of the next one.

The document keeps what each step returned. After a change of the program the number of the next step may mean another
step, and nothing in the document says so. A versioned blob keeps a digest of the program too, and asks a person when it
differs, also where the change is harmless.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.evaluation.interrupt.older_program import EACH, KINDS
from perdure.evaluation.session_blob import SessionBlob
from perdure.testing.sink import SinkClient

STEPS: dict[str, list[str]] = {
    "same": ["read", "post before", "wait", "post after"],
    "compatible": ["read", "post before", "wait", "check", "post after", "post extra"],
    "incompatible": ["read", "post start", "post before", "wait", "post after"],
    "planted": ["read", "post before", "wait", "post nothing"],
}


def digest_of(change: str) -> str:
    return sha256("\n".join(STEPS[change]).encode()).hexdigest()


def suspend(folder: Path) -> list[str]:
    """Write the documents as they were when the sessions were suspended, in their older form."""
    names = []
    for number in range(EACH * len(KINDS)):
        kind, name = KINDS[number % len(KINDS)], f"interrupted-{number}"
        document: dict[str, Any] = {"number": number, "kind": kind, "next": 2, "program": digest_of("same")}
        document["results"] = [f"notes of {number}", f"before-{number}"]
        SessionBlob(folder / f"{name}.json").write(document)
        names.append(name)
    return names


def resume_blob(path: Path, change: str, *, versioned: bool) -> dict[str, Any]:
    """Continue one document with the changed program; returns what became of it."""
    blob = SessionBlob(path)
    document = blob.read()
    if "values" not in document:  # the newer form names them so
        document["values"] = document.pop("results")
    if versioned and document["program"] != digest_of(change):
        return {"session": path.stem, "status": "waiting", "waits": ["program"], "result": None, "error": ""}
    while document["next"] < len(STEPS[change]):
        step, number = STEPS[change][document["next"]], document["number"]
        value = _do(step, number, document["kind"], f"{path.stem}/{document['next']}")
        document["values"] += [] if value is None else [value]
        document["next"] += 1
        blob.write(document)
    blob.close()
    result = ", ".join(document["values"])
    return {"session": path.stem, "status": "done", "waits": [], "result": result, "error": ""}


def _do(step: str, number: int, kind: str, key: str) -> str | None:
    verb, _, part = step.partition(" ")
    match verb:
        case "post" if part == "nothing":
            return "nothing"
        case "post":
            SinkClient.here().post(key, {"number": number, "part": part})
            return f"{part}-{number}"
        case "wait":
            if kind == "approval":
                SinkClient.here().post(f"{key}/approved", {"number": number, "part": "approved"})
            return "yes"
        case "read":
            return f"notes of {number}"
    return None
