"""Record a store with an older Perdure: `python -m tools.older_store` writes `evaluation/interrupt/older_store.*.gz`.

The older Perdure is the last commit before schema 8, taken from the history of this repository. It runs
`older_program.py` on a SQLite store. The store is kept twice: as the file, and as rows for PostgreSQL, where the same
migrations make the same tables.
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


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package, store = unpack_older(folder), folder / "store.db"
        environment = os.environ | {"PYTHONPATH": str(package), "XDG_RUNTIME_DIR": name, "HOME": name}
        environment.pop("PERDURE_SINK", None)
        subprocess.run([sys.executable, str(HOME / "older_program.py"), str(store)], env=environment, check=True)
        db = apsw.Connection(str(store))
        db.execute("pragma journal_mode = delete")
        rows = rows_of(db)
        db.close()
        (HOME / "older_store.sqlite.gz").write_bytes(gzip.compress(store.read_bytes(), mtime=0))
        (HOME / "older_store.rows.gz").write_bytes(gzip.compress(rows, mtime=0))


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
    main()
