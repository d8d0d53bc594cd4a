"""The text of a policy: read strictly, and refused if an example fails."""

from __future__ import annotations

import pytest

from perdure.domain.policy import parse
from perdure.errors import ConfigError

RULE = '[[rule]]\nname = "a"\nanswer = "deny"\nreason = "No."\n'


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(text, "p.toml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "'default' is missing"),
        ('default = "alow"', 1, "'default' cannot be 'alow'"),
        ('default = "ask"\nrules = 1', 2, "'rules' is not known"),
        (f'default = "ask"\n\n{RULE}brnch = "main"', 7, "'brnch' is not known"),
        (f'default = "ask"\n{RULE}replay = "never"', 6, "'replay' cannot be 'never'"),
        (f'default = "ask"\n{RULE}network = "yes"', 6, "'network' is true or false"),
        (f'default = "ask"\n{RULE}path = []', 6, "'path' is a text or a list"),
        (f'default = "ask"\n{RULE}argument.pr = {{ over = 3 }}', 6, "'pr' compares with"),
        (f'default = "ask"\n{RULE}argument.pr = {{ matches = "(" }}', 6, "the expression cannot be read"),
        (f'default = "ask"\n{RULE}gate = {{ quorum = 2 }}', 6, "has a gate, but its answer is deny"),
        (f'default = "ask"\n{RULE}[rule.except]\nbrnch = "x"', 7, "'brnch' is not known"),
        (f'default = "ask"\n{RULE}[[rule.example]]\nexpect = "deny"\ntol = "x"', 8, "'tol' is not known"),
        (f'default = "ask"\n{RULE}{RULE}', 6, "'a' is already the name in line 2"),
        ('default = "ask"\n[[budget]]\nname = "b"\nof = "cost"\nlimit = 5\nper = "week"', 6, "'per' cannot be 'week'"),
        ('default = "ask"\n[[budget]]\nname = "b"\nof = "turns"\nlimit = 1.5\nper = "day"', 5, "a whole number"),
        ('default = "ask"\n[[budget]]\nname = "b"\nof = "time"\nlimit = "1h"\nper = "day"', 6, "is for a session"),
        ('default = "ask"\n[log_access]\nexports = true', 3, "'exports' is not known"),
    ],
)
def test_an_error_names_its_line(text: str, line: int, part: str) -> None:
    error = refused(text)
    assert part in error.message
    assert f"p.toml, line {line}:" in error.message
    assert error.details["line"] == line


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (f'default = "ask"\n{RULE}brnch = "main"', "branch"),
        ('default = "alow"', "'allow'"),
        ('defalt = "ask"', "default"),
    ],
)
def test_a_mistyped_word_is_corrected(text: str, meant: str) -> None:
    assert f"Did you mean {meant}?" in refused(text).hint


def test_a_policy_whose_example_fails_is_refused() -> None:
    example = '[[rule.example]]\ntool = "pay"\nexpect = "allow"\n'
    error = refused(f'default = "ask"\n{RULE}{example}')
    assert "line 6: an example of the rule a expects allow, but the rule a answers deny" in error.message


def test_an_example_is_judged_by_the_whole_document() -> None:
    other = '[[rule]]\nname = "b"\nanswer = "ask"\nreason = "Ask."\n[[rule.example]]\ntool = "pay"\nexpect = "ask"\n'
    assert "the rule a answers deny" in refused(f'default = "allow"\n{RULE}{other}').message


def test_budgets_and_logged_reads_are_read() -> None:
    found = parse(
        'default = "allow"\n[[budget]]\nname = "b"\nof = "time"\nlimit = "30m"\nper = "session"\nanswer = "stop"\n'
        '[[budget]]\nname = "c"\nof = "effects"\nlimit = 3\nper = "day"\nreach = "outside"\n'
        '[log_access]\nexport = true\nkeep = "365d"\n'
    )
    assert [(one.of, one.limit, one.per, one.answer) for one in found.budgets] == [
        ("time", 1800.0, "session", "stop"),
        ("effects", 3, "day", "ask"),
    ]
    assert found.budgets[1].reach == ("outside",)
    assert found.log_access == {"export"}
    assert found.log_access_keep == 365 * 86_400


def test_a_line_inside_a_long_text_is_no_key() -> None:
    reason = 'reason = """\nbrnch = 1\n"""'
    long = RULE.replace('reason = "No."', reason)
    assert refused(f'default = "ask"\n{long}brnch = "x"').details["line"] == 8
