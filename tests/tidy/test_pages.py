"""Every page is linked, and the program in the README runs as written. Sphinx checks the links."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from perdure import cli
from perdure.cli.subcommands import ListingCommand
from tests.tidy.source import ROOT, files, relative, text

PAGES = [*sorted(ROOT.glob("*.md")), *files("docs", suffix=".md")]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), re.MULTILINE | re.DOTALL)


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.exists():
            seen.add(page)
            links = re.findall(r"\]\(([^)#:]+\.md)\)", text(page))
            waiting += [(page.parent / link).resolve() for link in links]
    assert [relative(page) for page in PAGES if page not in seen and page.name != "CHANGELOG.md"] == []


def test_imports_in_python_blocks_exist() -> None:
    wrong = []
    for page in PAGES:
        for block in blocks(page, "python"):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "perdure":
                    module = importlib.import_module(str(node.module))
                    wrong += [f"{relative(page)}: {one.name}" for one in node.names if not hasattr(module, one.name)]
    assert wrong == []


def unknown_in(line: str) -> list[str]:
    """The command, or the options, of a command line that do not exist."""
    name = line.split()[1]
    found = cli.perdure.get_command(click.Context(cli.perdure), name) if name in cli.COMMANDS else None
    if found is None:
        return [name]
    if isinstance(found, ListingCommand) and len(line.split()) > 2:
        found = found.subcommands.get(line.split()[2], found)
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = re.findall(r"(?<![\w-])--[a-z][a-z-]*", re.sub(r"(['\"]).*?\1", "", line))
    return [option for option in used if option not in known | {"--help"}]


def test_commands_and_options_on_the_pages_exist() -> None:
    wrong = []
    for page in PAGES:
        if page.name != "CHANGELOG.md" and page.parent.name != "reference":
            lines = re.findall(r"(?:^\$ |`)(perdure [a-z_]+(?![\w.])[^`\n]*)", text(page), re.MULTILINE)
            wrong += [f"{relative(page)}: {line}: {one}" for line in lines for one in unknown_in(line)]
    assert wrong == []


@pytest.mark.parametrize("line", ["perdure restore", "perdure ls --nothing"])
def test_unknown_command_or_option_is_found(line: str) -> None:
    assert unknown_in(line)


def test_readme_program_and_commands_run_as_written(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    (tmp_path / "review.py").write_text(code, encoding="utf-8")
    runs = [
        subprocess.run([sys.executable, "review.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs == ["posting only style\n1\n", "1\n"]
    commands = re.findall(r"^\$ (.*)", "".join(blocks(ROOT / "README.md", "console")), re.MULTILINE)
    assert [line for line in commands if line.startswith("make ") and f"\n{line[5:]}: " not in text("Makefile")] == []
    for line in commands:
        program, *arguments = shlex.split(line)
        if program == "perdure":
            command = [str(Path(sys.executable).with_name(program)), *arguments]
            ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert (ended.returncode, ended.stderr) == (0, ""), line
