"""Every error code and every setting is documented, and pages name only tests that exist."""

import re

from perdure import config, errors
from tests.tidy.source import ROOT, text

ERRORS = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PerdureError) and kind is not errors.PerdureError
    ),
    key=lambda kind: kind.__name__,
)


def test_every_error_has_a_code_a_hint_and_a_retry_flag() -> None:
    assert ERRORS
    assert [kind.__name__ for kind in ERRORS if not re.fullmatch(r"[a-z][a-z0-9_.-]*", kind.code)] == []
    assert [kind.__name__ for kind in ERRORS if not kind.hint.strip() or not isinstance(kind.retry, bool)] == []


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in ERRORS]
    assert [code for code in set(codes) if codes.count(code) > 1] == []


def test_every_error_is_documented() -> None:
    page = text("docs/reference/errors.md")
    assert [kind.__name__ for kind in ERRORS if f"`{kind.code}`" not in page or f"`{kind.__name__}`" not in page] == []


def test_every_setting_is_documented() -> None:
    page = text("docs/reference/settings.md")
    assert config.SETTINGS
    assert [one.name for one in config.SETTINGS if f"`{one.name}`" not in page or f"`{one.env}`" not in page] == []


def test_tests_named_by_the_security_page_exist() -> None:
    page = text("docs/security.md")
    named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+\.py)`", page))
    assert named
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(named - there) == []


def test_security_page_names_every_security_test() -> None:
    page = text("docs/security.md")
    assert [path.name for path in (ROOT / "tests" / "security").glob("test_*.py") if f"`{path.name}`" not in page] == []


def test_the_changelog_says_nothing_twice() -> None:
    lines = [line for line in text("CHANGELOG.md").splitlines() if line.startswith("- ")]
    assert sorted({line for line in lines if lines.count(line) > 1}) == []
