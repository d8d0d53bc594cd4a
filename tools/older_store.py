"""Record stores with an older Perdure: `python -m tools.older_store` writes `evaluation/interrupt/older_store.*.gz`.

The older Perdure is the last commit before schema 8, taken from the history of this repository. It runs
`older_program.py` on a SQLite store, which is kept twice: as the file, and as rows for PostgreSQL, where the same
migrations make the same tables. It runs it again on a store of text files, whose logs are kept as they are. With the
word `sqlite` or `files`, only that one is recorded.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import apsw
import msgspec

ROOT = Path(__file__).parents[1]
HOME = ROOT / "src" / "perdure" / "evaluation" / "interrupt"
NEWER = "src/perdure/store/migrations/0008_control.sql"


def main(wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = unpack_older(folder)
        if "sqlite" in wanted:
            record_sqlite(package, folder)
        if "files" in wanted:
            record_files(package, folder)


def record_sqlite(package: Path, folder: Path) -> None:
    """The file, and its rows."""
    store = folder / "store.db"
    run_older(package, folder, str(store))
    db = apsw.Connection(str(store))
    db.execute("pragma journal_mode = delete")
    rows = rows_of(db)
    db.close()
    keep("sqlite", store.read_bytes())
    keep("rows", rows)


def record_files(package: Path, folder: Path) -> None:
    """The logs, by their names; the witness belongs to the machine."""
    store = folder / "files"
    run_older(package, folder, f"files:{store}")
    logs = {str(path.relative_to(store)): path.read_text(encoding="utf-8") for path in sorted(store.rglob("*.jsonl"))}
    keep("files", msgspec.json.encode(logs))


def run_older(package: Path, folder: Path, store: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(package), "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)}
    environment.pop("PERDURE_SINK", None)
    subprocess.run([sys.executable, str(HOME / "older_program.py"), store], env=environment, check=True)


def keep(form: str, content: bytes) -> None:
    (HOME / f"older_store.{form}.gz").write_bytes(gzip.compress(content, mtime=0))


def unpack_older(folder: Path) -> Path:
    """The source of the older Perdure."""
    added = git("log", "--diff-filter=A", "--format=%H", "--", NEWER).decode().split()[-1]
    with tarfile.open(fileobj=io.BytesIO(git("archive", f"{added}^", "src"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def rows_of(db: apsw.Connection) -> bytes:
    """A JSON line for each table that has rows: its name, its columns, its rows."""
    lines = []
    tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table' order by rowid")]
    for table in tables:
        if table.startswith("sqlite_"):
            continue
        found = db.execute(f"select * from {table}")
        rows = [list(row) for row in found]
        if rows:
            columns = [column[0] for column in db.execute(f"select * from {table}").get_description()]
            lines.append({"table": table, "columns": columns, "rows": rows})
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:] or ["sqlite", "files"])
