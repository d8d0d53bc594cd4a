"""Histories: built once for each system and length, in bulk, and copied for each measurement.

A history is made under another name and renamed when it is whole, so that one that was interrupted is made again. The
databases of a server are gone with it, and so is what this process remembers about them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from perdure.evaluation import services, substrates
from perdure.evaluation.growth.growth_cell import GrowthCell, GrowthFigures
from perdure.evaluation.peers import peer
from perdure.evaluation.run import trial_process

_databases: dict[tuple[str, str, int], str] = {}  # of the shared server, by server, system and length


class HistoryShelf:
    """The histories of one system, in a folder or on the shared server."""

    def __init__(self, home: Path, system: str) -> None:
        self.home, self.system = home, system
        self.substrate = system.split("/")[1]
        self.on_server = self.substrate == "postgres"

    def build(self, lengths: Sequence[int]) -> None:
        """Make the histories that are missing, in one process of their own."""
        missing = [messages for messages in lengths if not self._exists(messages)]
        made = {messages: self._new(messages) for messages in missing}
        run_cells(
            [
                GrowthCell(system=self.system, address=address, messages=messages, steps=0, cap=0, build=True)
                for messages, address in made.items()
            ]
        )
        for messages, address in made.items():
            if self.on_server:
                _databases[self._key(messages)] = address
            else:
                self._partial(messages).rename(self._folder(messages))

    def copy(self, messages: int, folder: Path) -> str:
        """A copy of a history, which may be changed; returns its address."""
        if self.on_server:
            source = _databases[self._key(messages)].rpartition("/")[2]
            return services.postgres().create_database(template=source)
        shutil.copytree(self._folder(messages), folder)
        return self._address(folder)

    def size(self, messages: int) -> int:
        """The bytes of a history on disk, at rest."""
        if self.on_server:
            import psycopg

            with psycopg.connect(_databases[self._key(messages)], autocommit=True) as server:
                row = server.execute("select pg_database_size(current_database())").fetchone()
                return int(row[0]) if row else 0
        return sum(path.stat().st_size for path in self._folder(messages).rglob("*") if path.is_file())

    def _exists(self, messages: int) -> bool:
        return self._key(messages) in _databases if self.on_server else self._folder(messages).exists()

    def _new(self, messages: int) -> str:
        if self.on_server:
            return services.postgres().create_database()
        partial = self._partial(messages)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        return self._address(partial)

    def _address(self, folder: Path) -> str:
        if self.substrate == "json":
            return str(folder / "session.json")
        return substrates.store_address(self.substrate, folder)

    def _folder(self, messages: int) -> Path:
        return self.home / f"{self.system.replace('/', '-')}-{messages}"

    def _partial(self, messages: int) -> Path:
        return self._folder(messages).with_suffix(".partial")

    def _key(self, messages: int) -> tuple[str, str, int]:
        return str(services.postgres().folder), self.system, messages


def _run_peer(cells: list[GrowthCell]) -> Iterator[bytes]:
    for cell in cells:
        word, state = "build" if cell.build else "grow", str(Path(cell.address).parent)
        command = peer(cell.peer).command(word, state=state, messages=cell.messages, steps=cell.steps)
        printed = trial_process.run(command)
        yield printed
        if not cell.build and msgspec.json.decode(printed, type=GrowthFigures).step > cell.cap:
            return


def run_cells(cells: list[GrowthCell]) -> bytes:
    """Run cells in a fresh process; returns what it printed. A peer has a process of its own for each cell."""
    if not cells:
        return b""
    if cells[0].peer:
        return b"".join(_run_peer(cells))
    command = [sys.executable, "-P", "-m", "perdure.evaluation.growth.growth_cell", msgspec.json.encode(cells).decode()]
    return trial_process.run(command)
