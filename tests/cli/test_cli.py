"""What every command shares: options, settings, exit codes, and errors that are sentences."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from perdure import __version__, cli
from perdure.cli import COMMANDS, GROUPS, HIDDEN, SUBCOMMANDS, SYNONYMS, main, perdure, report
from perdure.errors import ConfigError, LeaseHeld, NotFound, PerdureError, SessionWaiting
from perdure.store.moves import session
from perdure.store.store import open_store
from tests.cli.support.terminal import PERDURE, PROGRAMS_FILE, Terminal, write_settings

COMMAND = [sys.executable, "-c", "from perdure.cli import main; main()"]


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder to stand in, and no settings but those of the test."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in [name for name in os.environ if name.startswith("PERDURE_")] + ["COLUMNS"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_version_imports_nothing_heavy() -> None:
    code = "import sys; from perdure.cli import main\ntry: main(['--version'])\nfinally: print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    first, _, modules = said.partition("\n")
    assert first == f"perdure {__version__}"
    heavy = {"rich", "msgspec", "apsw", "psycopg", "asyncio", "perdure.config", "perdure.store", "perdure.cli.shell"}
    heavy |= {"prompt_toolkit", "anthropic", "mcp"}
    assert heavy & set(modules.split()) == set()


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    said = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in said] == []


def test_no_command_exits_with_2_and_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    assert "Sessions:" in capsys.readouterr().err


def test_every_command_is_in_exactly_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for group in GROUPS.values() for name in group]
    folder = Path(cli.__file__).parent / "commands"
    parts = {"audit_head", "audit_tail", *SUBCOMMANDS.values()}  # subcommands of another module's command
    modules = {path.stem.rstrip("_") for path in folder.glob("*.py")} - {"__init", *parts}
    assert sorted([*names, *HIDDEN]) == sorted(modules)
    assert run("--help") == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("   ")]
    listed = [line.split()[0] for line in said if line.startswith("  ")]
    assert [name for name in listed if name in (*COMMANDS, *HIDDEN)] == names
    assert [line for line in said if line.removesuffix(":") in GROUPS] == [f"{group}:" for group in GROUPS]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("lst",), "Did you mean ls?"),
        (("approv",), "Did you mean approvals or approve?"),
        (("list",), "Did you mean ls?"),
        (("fix the test",), "`perdure run`"),
        (("--stor", "x", "ls"), "Did you mean --store?"),
        (("ls", "--jsn"), "Did you mean --json?"),
        (("facts", "forgt", "x"), "Did you mean forget?"),
    ],
)
def test_mistyped_word_names_what_was_meant(
    words: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    assert meant in capsys.readouterr().err


def test_word_without_likeness_names_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("xyzzy") == 2
    assert "mean" not in capsys.readouterr().err


def test_words_of_other_tools_name_commands() -> None:
    assert [word for word, meant in SYNONYMS.items() if word in COMMANDS or meant not in COMMANDS] == []


@pytest.mark.parametrize(
    "words",
    [
        ("--store", "some.db", "--json", "doctor"),
        ("--json", "doctor", "--store", "some.db"),
        ("--json", "--store=other.db", "doctor", "--store", "some.db"),
    ],
    ids=" ".join,
)
def test_shared_options_may_stand_before_the_command(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    open_store("some.db").close()
    assert run(*words) == 0
    assert Path(json.loads(capsys.readouterr().out)["place"]).name == "some.db"


def test_app_and_store_before_a_subcommand_are_used(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_APP")
    monkeypatch.delenv("PERDURE_STORE")
    assert terminal("--app", PROGRAMS_FILE, "--store", "own.db", "run", "user_talk", "--id", "t").code == 3
    assert terminal("--store", "own.db", "facts", "set", "colour", "red", "--session", "t").code == 0
    found = terminal("--json", "--store", "own.db", "facts")
    assert [one["key"] for one in found.lines] == ["colour"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_summary_and_the_shared_options(name: str) -> None:
    found = perdure.get_command(click.Context(perdure), name)
    assert found is not None
    assert found.name == name
    assert (found.help or "").startswith(COMMANDS[name])
    assert {"store", "json"} <= {parameter.name for parameter in found.params}
    assert all(parameter.help for parameter in found.params if isinstance(parameter, click.Option))


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("a"), 2), (SessionWaiting("a"), 3), (LeaseHeld("a"), 4), (NotFound("a"), 1), (PerdureError("a"), 1)],
)
def test_each_error_has_its_exit_code(error: PerdureError, code: int) -> None:
    assert report(error, ()) == code


def test_error_has_a_message_a_code_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("migrate", "--store", "none.db") == 1
    said = capsys.readouterr()
    assert said.out == ""
    sentence, hint = said.err.splitlines()
    assert sentence.startswith("error: There is no store at ")
    assert sentence.endswith(". [not-found]")
    assert hint == " hint: Check the address. A session started with it would create a new, empty store."


def test_error_is_an_object_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("migrate", "--json", "--store", "none.db") == 1
    said = json.loads(capsys.readouterr().err)["error"]
    assert (said["code"], said["retry"], bool(said["hint"])) == ("not-found", False, True)


@pytest.mark.parametrize("arguments", [("nonsense",), ("doctor", "--nonsense"), ("doctor", "--store"), ("doctor", "x")])
def test_wrong_use_exits_with_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert "[config]" in said
    assert "--help" in said


def test_store_comes_from_option_then_environment_then_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def place(*arguments: str) -> str:
        run("doctor", "--json", *arguments)
        return Path(json.loads(capsys.readouterr().out)["place"]).name

    assert place() == "perdure.db"
    write_settings('store = "file.db"')
    assert place() == "file.db"
    monkeypatch.setenv("PERDURE_STORE", "environment.db")
    assert place() == "environment.db"
    assert place("--store", "option.db") == "option.db"


def test_unknown_setting_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    Path("perdure.toml").write_text('stroe = "file.db"')
    assert run("doctor") == 2
    assert "stroe" in capsys.readouterr().err


def test_system_error_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    assert run("demo", "--keep", "file/below") == 1
    assert capsys.readouterr().err.startswith("error: Not a directory: ")


def test_doctor_exit_code_for_a_good_and_a_missing_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--store", "none.db") == 1
    said = capsys.readouterr().out
    assert "wrong: There is no store at" in said
    assert said.endswith("1 wrong\n")
    open_store("some.db").close()
    assert run("doctor", "--store", "some.db", "--deep") == 0
    said = capsys.readouterr().out
    assert "journal wal, synchronous full" in said
    assert "depth D1: one person, one machine\n  missing for D2: " in said
    assert "nothing wrong" in said.splitlines()[-1]


def test_doctor_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    open_store("some.db").close()
    assert run("doctor", "--json", "--store", "some.db") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["healthy"], said["depth"]["holds"], said["durability"]["synchronous"]) == (True, "D1", "full")


@pytest.mark.postgres
@pytest.mark.databases("postgres")
def test_doctor_shows_a_server(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--store", target) == 0
    said = capsys.readouterr().out
    assert "synchronous_commit on, fsync on, full_page_writes on" in said
    assert "depth D3: many nodes" in said
    assert target not in said  # the password


def test_migrate_prints_versions_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    open_store("some.db").close()
    assert run("migrate", "--store", "some.db") == 0
    assert "Nothing to do." in capsys.readouterr().out
    assert run("migrate", "--json", "--store", "some.db") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["before"] == said["after"] == said["known"]


def said_on_terminal(*arguments: str, **environment: str) -> str:
    """What a person would see, escape codes and all."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | environment
    ) as process:
        os.close(theirs)
        said = b""
        try:
            while data := os.read(ours, 65536):
                said += data
        except OSError:  # the other end is closed: all is said
            pass
        os.close(ours)
        process.wait()
    return said.decode()


@pytest.mark.slow
def test_colour_only_on_terminals_that_support_it() -> None:
    red = "\x1b[1;31m"
    assert red in said_on_terminal("doctor", "--store", "none.db", TERM="xterm", NO_COLOR="")
    assert red not in said_on_terminal("doctor", "--store", "none.db", TERM="xterm", NO_COLOR="1")
    piped = subprocess.run([*COMMAND, "doctor", "--store", "none.db"], capture_output=True, text=True)
    assert (piped.returncode, "\x1b" in piped.stdout, piped.stderr) == (1, False, "")
    assert [line for line in piped.stdout.splitlines() if line != line.rstrip()] == []


@pytest.mark.slow
@pytest.mark.parametrize("words", [("ls",), ("show", "s-1"), ("doctor",), ("ls", "--json"), ("--help",)])
def test_closed_pipe_exits_silently_with_141(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PERDURE_STORE", str(tmp_path / "perdure.db"))
    with open_store(tmp_path / "perdure.db") as store:
        store.write_now(session.create(session.NewSession(id="s-1", program="p", arguments={}), by="ada"))
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, timeout=180, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


def raw(*arguments: bytes | str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([PERDURE, *arguments], stderr=subprocess.PIPE, timeout=180, **options)  # type: ignore[call-overload,no-any-return]


def test_doctor_escapes_control_characters_of_an_address(terminal: Terminal) -> None:
    assert "\x1b" not in terminal("doctor", "--store", "a\x1b[2Jb.db").out


@pytest.mark.slow
def test_closed_output_prints_no_traceback(terminal: Terminal) -> None:
    terminal("run", "user_talk", "--id", "t")
    said = raw("ls", preexec_fn=lambda: os.close(1))
    assert b"Traceback" not in said.stderr


@pytest.mark.slow
def test_system_error_names_the_file(terminal: Terminal, folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    said = raw("ls", cwd=gone, preexec_fn=gone.rmdir)
    assert said.returncode == 2  # nothing is wrong with the store
    assert b"None" not in said.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ls", "doctor"])
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_full_output_is_not_a_store_error(command: str, unbuffered: str, terminal: Terminal) -> None:
    terminal("run", "user_talk", "--id", "t")
    with open("/dev/full", "w") as full:
        said = raw(command, stdout=full, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    assert b"None" not in said.stderr
    assert b"output cannot be written" in said.stderr
    assert b"store-unavailable" not in said.stderr
    assert (said.returncode, said.stderr.count(b"\n")) == (1, 2)  # and what is left in the buffer is not tried again
