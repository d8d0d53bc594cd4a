"""Forged and damaged bundles."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.domain.event import body_digest, genesis, link

Files = dict[str, bytes]


def content(folder: Path) -> Files:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def with_manifest(files: Files, change: Callable[[dict[str, Any]], None] | None = None) -> Files:
    """The same with a manifest that is right about every file, and then changed."""
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = {
        name: {"sha256": sha256(one).hexdigest(), "size": len(one)}
        for name, one in files.items()
        if name != "manifest.json"
    }
    if change is not None:
        change(manifest)
    return files | {"manifest.json": json.dumps(manifest).encode()}


def rows(files: Files, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files[name].splitlines()]


def with_rows(files: Files, name: str, change: Callable[[list[dict[str, Any]]], None]) -> Files:
    """The same with other rows in one file, and a manifest that fits."""
    found = rows(files, name)
    change(found)
    table = {"events": "event"}.get(Path(name).stem, Path(name).stem)

    def count(manifest: dict[str, Any]) -> None:
        manifest["counts"][table] = len(found)

    lines = b"".join(json.dumps(row).encode() + b"\n" for row in found)
    return with_manifest(files | {name: lines}, count)


def rechained(files: Files, change: Callable[[list[dict[str, Any]]], None]) -> Files:
    """The same with another log, whose chain is forged completely, and everything else made to fit."""
    events = rows(files, "events.jsonl")
    change(events)
    chain = genesis(events[0]["session_uid"])
    for one in events:
        if one["body"] is not None:
            one["digest"] = body_digest(one["salt"], one["body"])
        chain = link(
            chain, *(one[name] for name in ("number", "kind", "actor", "at", "effect_id", "move_id", "digest"))
        )
        one["chain"] = chain
    (session,) = rows(files, "tables/session.jsonl")
    session |= {"cursor": len(events), "chain": chain}

    def fit(manifest: dict[str, Any]) -> None:
        manifest["counts"]["event"] = len(events)
        for member in (manifest["session"], *manifest["line"]):
            member |= {"cursor": len(events), "chain": chain}

    forged = files | {
        "events.jsonl": b"".join(json.dumps(one).encode() + b"\n" for one in events),
        "tables/session.jsonl": json.dumps(session).encode() + b"\n",
    }
    return with_manifest(forged, fit)


def write_folder(path: Path, files: Files) -> Path:
    for name, one in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(one)
    return path


def zipped(files: Files, *more: tuple[zipfile.ZipInfo | str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A .zip of the files, and of entries that no honest tool would make."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packed) as made:
        for name, one in [*files.items(), *more]:
            made.writestr(name, one)
    return buffer.getvalue()
