"""Record a real shell in a terminal of its own, as an animated SVG picture.

    with Recorder(folder, environment) as recorder:
        recorder.type("perdure ls\n")
        recorder.until("fix")
    picture = draw(recorder.frames)

The terminal is a pseudo-terminal, read by pyte. The picture needs no script and no font of its own; a reader who asked
for reduced motion, and a viewer without animations, sees the last frame.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import suppress
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple, Self

import pyte

PATIENCE = 60.0
SHORTEST, LONGEST = 0.08, 1.0  # seconds that a frame is shown, unless the scenario holds it longer
AT_END = 4.0
COLUMN, ROW, SIZE, MARGIN = 8.4, 19, 14, 12
INK, PAPER = "#d8dee9", "#1f2430"
COLOURS = {
    "black": "#4c566a", "red": "#f07178", "green": "#a6cc70", "brown": "#e6c07b", "blue": "#73b8ff",
    "magenta": "#d4a6ff", "cyan": "#7fd7d1", "white": "#d8dee9",
}  # fmt: skip


class Run(NamedTuple):
    """Characters of one row in one style."""

    column: int
    text: str
    colour: str
    bold: bool
    dim: bool


Rows = tuple[tuple[Run, ...], ...]


class Frame(NamedTuple):
    rows: Rows
    seconds: float


class Recorder:
    """A person at a shell. Each change of the screen becomes a frame."""

    def __init__(self, folder: Path, environment: dict[str, str], *, columns: int = 92, rows: int = 26) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.frames: list[Frame] = []
        self._stream = pyte.ByteStream(self.screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._shell = subprocess.Popen(
            ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-i"],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env=environment | {"TERM": "xterm-256color", "PS1": "$ ", "HISTFILE": ""},
        )  # fmt: skip
        os.close(theirs)
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        self.until("$ ")
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def type(self, text: str) -> None:
        """Type as a person does, one key after the other."""
        for key in text:
            os.write(self._ours, b"\r" if key == "\n" else key.encode())
            self._read(0.1)

    def until(self, text: str, *, times: int = 1) -> None:
        """Wait until the screen shows a text so many times."""
        end = time.monotonic() + PATIENCE
        while self.text.count(text.rstrip()) < times:
            if time.monotonic() > end:
                raise SystemExit(f"The screen did not show {text!r} within a minute:\n{self.text}")
            self._read(0.2)

    def kill(self, command: str) -> None:
        """Kill the process of the shell whose command line contains this text, as the kernel does."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has just ended
                line = path.read_bytes().replace(b"\0", b" ").decode()
                if command in line and os.getsid(int(path.parent.name)) == self._shell.pid:
                    os.kill(int(path.parent.name), signal.SIGKILL)

    def hold(self, seconds: float) -> None:
        """Show the present screen for so long."""
        self._read(0.3)
        rows, shown = self.frames[-1]
        self.frames[-1] = Frame(rows, max(shown, seconds))

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            try:
                self._stream.feed(os.read(self._ours, 65536))
            except OSError:  # the shell has ended
                return
            seconds = 0.03  # what is printed together is shown together
        self._add_frame()

    def _add_frame(self) -> None:
        rows, now = _rows(self.screen), time.monotonic()
        if self.frames and self.frames[-1].rows == rows:
            return
        if self.frames:
            shown, held = self.frames[-1]
            self.frames[-1] = Frame(shown, max(held, min(LONGEST, now - self._last)))
        self.frames.append(Frame(rows, SHORTEST))
        self._last = now


def _rows(screen: pyte.Screen) -> Rows:
    cursor = None if screen.cursor.hidden else (screen.cursor.y, screen.cursor.x)
    return tuple(_runs(screen, row, cursor) for row in range(screen.lines))


def _runs(screen: pyte.Screen, row: int, cursor: tuple[int, int] | None) -> tuple[Run, ...]:
    found: list[Run] = []
    for column in range(screen.columns):
        cell = screen.buffer[row][column]
        text, colour = cell.data, _colour(cell.fg)
        if cursor == (row, column) and text == " ":
            text, colour = "▏", INK
        style = (colour, cell.bold, _is_dim(cell.fg))
        if found and found[-1][2:] == style and found[-1].column + len(found[-1].text) == column:
            found[-1] = found[-1]._replace(text=found[-1].text + text)
        else:
            found.append(Run(column, text, *style))
    return tuple(run._replace(text=_without_host(run.text.rstrip())) for run in found if run.text.strip())


def _without_host(text: str) -> str:
    """The text without names of this machine and of its temporary folders."""
    return re.sub(r"@[\w.-]+:\d+", "@laptop:4711", re.sub(r"/\S*/perdure-picture-\w+", "/home/ada", text))


def _colour(name: str) -> str:
    if name == "default":
        return INK
    plain = name.removeprefix("bright")
    return COLOURS.get(plain, f"#{name}" if len(name) == 6 else INK)


def _is_dim(name: str) -> bool:
    return name == "brightblack"


def draw(frames: list[Frame], title: str) -> str:
    """An SVG document: every distinct row is defined once, and each frame refers to its rows."""
    names: dict[tuple[Run, ...], str] = {}
    shown: list[str] = []
    for number, frame in enumerate(frames):
        used = []
        for y, row in enumerate(frame.rows):
            if row:
                name = names.setdefault(row, f"r{len(names)}")
                used.append(f'<use href="#{name}" y="{y * ROW}"/>')
        shown.append(f'<g class="f f{number}">{"".join(used)}</g>')
    rows = max((y + 1 for frame in frames for y, row in enumerate(frame.rows) if row), default=1)
    columns = max((run.column + len(run.text) for row in names for run in row), default=1)
    width, height = round(columns * COLUMN) + 2 * MARGIN, rows * ROW + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="{SIZE}">'
        f"<title>{escape(title)}</title><style>{_style(frames)}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>'
        f"<defs>{''.join(_row(name, row) for row, name in names.items())}</defs>"
        f'<g transform="translate({MARGIN} {MARGIN + SIZE})">{"".join(shown)}</g></svg>\n'
    )


def _style(frames: list[Frame]) -> str:
    """Each frame is visible during its part of the whole; without animation, only the last one is."""
    whole = sum(frame.seconds for frame in frames) + AT_END
    parts, start = [".f{visibility:hidden}", f".f{len(frames) - 1}{{visibility:visible}}", ".b{font-weight:bold}"], 0.0
    parts.append(".d{opacity:.6}@media (prefers-reduced-motion:no-preference){")
    for number, frame in enumerate(frames):
        end = start + frame.seconds if number < len(frames) - 1 else whole
        first, last = start / whole * 100, end / whole * 100
        steps = f"{first:.3f}%{{visibility:visible}}{last:.3f}%{{visibility:hidden}}"
        if first > 0:
            steps = "0%{visibility:hidden}" + steps
        parts.append(f"@keyframes k{number}{{{steps}}}.f{number}{{animation:k{number} {whole:.2f}s step-end infinite}}")
        start = end
    return "".join(parts) + "}"


def last_text(picture: str) -> str:
    """The text of the last frame of a picture."""
    rows = dict(re.findall(r'<text id="(\w+)"[^>]*>(.*?)</text>', picture))
    *_, last = re.findall(r'<g class="f f\d+">(.*?)</g>', picture)
    texts = [re.findall(r">([^<]+)</tspan>", rows[name]) for name in re.findall(r'href="#(\w+)"', last)]
    return "\n".join(unescape(" ".join(one)) for one in texts)


def _row(name: str, row: tuple[Run, ...]) -> str:
    runs = []
    for run in row:
        kinds = " ".join(kind for kind, given in (("b", run.bold), ("d", run.dim)) if given)
        css = f' class="{kinds}"' if kinds else ""
        fill = f' fill="{run.colour}"'
        length = f' textLength="{len(run.text) * COLUMN:.1f}"' if len(run.text) > 1 else ""
        runs.append(f'<tspan x="{run.column * COLUMN:.1f}"{length}{fill}{css}>{escape(run.text)}</tspan>')
    return f'<text id="{name}" xml:space="preserve">{"".join(runs)}</text>'
