"""The parts of a command, and what cannot be judged."""

from __future__ import annotations

import pytest

from perdure.domain.policy.shell import UNKNOWN, analyse
from perdure.domain.policy.shell.analysis import LARGEST, MOST_SIGNS


def programs(command: str) -> list[str]:
    return [one.program for one in analyse(command).parts]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("a | b && c || d; e & f\ng", ["a", "b", "c", "d", "e", "f", "g"]),
        ("a $(b `c`) <(d)", ["c", "b", "d", "a"]),
        ("(a; { b; }); if c; then d; fi; for i in x; do e; done", ["a", "b", "c", "d", "e"]),
        ("f() { a; }", ["a"]),
        ("env A=1 nice -n 5 timeout -k 1 5 a", ["env", "nice", "timeout", "a"]),
        ("sh -c 'a | bash -lc b'", ["sh", "a", "bash", "b"]),
        ("find . -exec a {} \\; -name x", ["find", "a"]),
        ("xargs -n 1 a", ["xargs", "a"]),
        ("eval a b", ["eval", "a"]),
        ("bash <<'EOF'\na\nEOF", ["bash", "a"]),
        ("python3 -m a b", ["python3", "a"]),
        ("git -C x -c alias.y='!a' y", ["git", "git", "git", "a"]),
        ("time { a; }", ["time", "a", "}"]),
        ("\\a 'b'\"c\"", ["a"]),
        ("$'\\x61'", ["a"]),
    ],
)
def test_each_program_of_a_command_is_a_part(command: str, found: list[str]) -> None:
    assert programs(command) == found


def test_words_are_what_the_shell_makes_of_them() -> None:
    (part,) = analyse("a 'b c'd \"e$X\" $HOME/f \\g {h,i} > j 2>&1 k").parts
    assert part.words == ("b cd", f"e{UNKNOWN}", "~/f", "g", "h", "i", "k")
    assert part.writes == ("j",)


def test_a_part_knows_who_feeds_it_and_what_it_writes() -> None:
    found = {one.program: one for one in analyse("A=1 a | b $(c) >> d; tee e; cp f g; dd of=h; sed -i s i").parts}
    assert set(found["b"].fed_by) == {"a", "c"}
    assert found["a"].variables == ("A",)
    assert [found[name].writes for name in ("b", "tee", "cp", "sed")] == [("d",), ("e",), ("g",), ("s", "i")]
    assert "h" in found["dd"].writes


@pytest.mark.parametrize(
    "command",
    [
        "$X a", "a$(b) c", "eval \"$X\"", "sh -c \"a $X\"", "a | sh", "sh", "nice --unknown a b", "a; ; b", "a (",
        "a\u200b", "\uff41 b",         "a\r", "r\\\nm x", "ls\n\\\nrm x", "{a,b}", "echo `a \\`b\\``",
        "cat <<E'O'F\nx\nEOF\n", "", "# a", "a=(b)c", "/bin/r? x",
        "env -S 'a b'", "find . -exec {} \\;", "{ a; } > b c",
    ],
)  # fmt: skip
def test_what_is_not_certain_is_a_problem(command: str) -> None:
    assert analyse(command).problems


@pytest.mark.parametrize(
    "command",
    ["a \\\n  -b", "a # c", "a > b 2>&1 < c", "cat <<EOF > x\ny $z\nEOF\na", "a 'b\nc'", "a \"b\nc\"",
     "if a\nthen b\nfi"],
)  # fmt: skip
def test_ordinary_commands_have_no_problem(command: str) -> None:
    assert analyse(command).problems == ()


@pytest.mark.parametrize("command", ["a" * (LARGEST + 1), "a;" * (MOST_SIGNS + 1), "$(" * 100 + "a" + ")" * 100])
def test_a_command_beyond_the_bounds_is_a_problem(command: str) -> None:
    assert analyse(command).problems


def test_a_text_is_analysed_once() -> None:
    assert analyse("a | b | c") is analyse("a | b | c")
