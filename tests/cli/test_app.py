"""The user's code, by name and by path; and a program's arguments as a shell gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support.terminal import PROGRAMS_FILE, Terminal, write_settings

PROGRAM = """
from perdure import Session, program

@program
async def {name}(s: Session, number: int, text: str = "x", many: list[int] | None = None) -> list[object]:
    return [number, text, many]
"""


def write(path: str, name: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(PROGRAM.format(name=name))


def test_app_is_a_module_a_file_or_several(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    write("app_one.py", "app_one_program")
    write("deep/app_two.py", "app_two_program")
    one = terminal("run", "app_one_program", "number=1", "--app", "app_one", "--app", "deep/app_two.py")
    two = terminal("run", "app_two_program", "number=2", "--app", "app_one", "--app", "deep/app_two.py")
    assert (one.out, two.out) == ('[1,"x",null]\n', '[2,"x",null]\n')


@pytest.mark.slow
def test_apps_come_from_the_settings(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    write("app_three.py", "app_three_program")
    write("app_four.py", "app_four_program")
    monkeypatch.delenv("PERDURE_APP")
    write_settings('app = ["app_three", "app_four.py"]\nby = "grace"')
    assert terminal.process("run", "app_four_program", "number=4").code == 0
    write_settings('app = "app_three, app_four"')
    assert terminal.process("run", "app_three_program", "number=3").code == 0


@pytest.mark.parametrize(
    ("app", "code", "complaint"),
    [
        ("app_nowhere", "", "app_nowhere cannot be imported: ModuleNotFoundError: No module named 'app_nowhere'."),
        ("app_gone.py", "", "app_gone.py cannot be imported: FileNotFoundError: "),
        ("app_broken", "def (", "app_broken cannot be imported: SyntaxError: invalid syntax (app_broken.py, line 1)."),
        ("app_raises", "\n1 / 0", "ZeroDivisionError: division by zero (app_raises.py, line 2)."),
        (
            "app_twice",
            "from perdure import tool\n@tool\ndef user_merge(): ...",
            "ConfigError: Two definitions are named user_merge (app_twice.py, line 2).",
        ),
        ("app_leaves.py", "raise SystemExit(3)", "app_leaves.py cannot be imported: SystemExit: 3 (app_leaves.py, "),
    ],
)
def test_app_that_cannot_be_imported_is_one_message(terminal: Terminal, app: str, code: str, complaint: str) -> None:
    if code:
        Path(app.removesuffix(".py") + ".py").write_text(code)
    said = terminal("run", "anything", "--app", PROGRAMS_FILE, "--app", app)
    assert (said.code, complaint in said.err, said.err.count("\n")) == (2, True, 2), said.err


@pytest.mark.slow
def test_unknown_program_lists_loaded_programs(terminal: Terminal) -> None:
    said = terminal.process("run", "user_reviev")
    assert said.code == 2
    assert "There is no program or agent 'user_reviev'. Loaded programs: user_amount, user_fails, " in said.err
    assert "Did you mean user_review? " in said.err
    assert not Path("perdure.db").exists()
    alone = terminal.process("run", "x", "--app", "json")
    assert ("No program is loaded." in alone.err, "--app MODULE" in alone.err) == (True, True)


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (["number=1"], '[1,"x",null]'),
        (["number=1", "text=two words"], '[1,"two words",null]'),
        (["number=1", "text=a=b"], '[1,"a=b",null]'),
        (["number=1", "text="], '[1,"",null]'),
        (["number=1", 'text="7"', "many=[1,2]"], '[1,"7",[1,2]]'),
        (["number=1", "text=[1,"], '[1,"[1,",null]'),
        (["number=99999999999999999999"], '[99999999999999999999,"x",null]'),
    ],
)
def test_json_value_is_parsed_as_json(terminal: Terminal, given: list[str], result: str) -> None:
    said = terminal("run", "user_values", *given)
    assert (said.code, said.out) == (0, result + "\n"), said.err


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([], "missing a required argument: 'number'"),
        (["number=x"], "Expected `int`, got `str`"),
        (["number=1", "other=2"], "unexpected keyword argument 'other'"),
        (["number"], "'number' is not of the form key=value."),
        (["=1"], "'=1' is not of the form key=value."),
        (["number=1", "number=2"], "number is given twice."),
        (["number=1", "--id", " "], "The session id is empty."),
        (["number=1", "--id", "a b"], "is not a valid name"),
    ],
)
def test_wrong_arguments_exit_with_2_and_create_no_session(
    terminal: Terminal, given: list[str], complaint: str
) -> None:
    said = terminal("run", "user_values", *given)
    assert (said.code, complaint in said.err) == (2, True), said.err
    assert not Path("perdure.db").exists() or terminal("ls", "--json").lines == []
