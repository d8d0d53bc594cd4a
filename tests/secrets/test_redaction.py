"""Known secrets: in which forms a value is found, and what is left of the text around it."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from urllib.parse import quote

import pytest

from perdure.ids import decode
from perdure.secrets import redaction
from perdure.secrets.redaction import KNOWN, found_in, redact, redact_json, redact_value

VALUE = 'p"ss\\wörd/1'
SHOWN = "[secret env:T]"


@pytest.fixture(autouse=True)
def _known() -> None:
    redaction.add("env:T", VALUE)


@pytest.mark.parametrize(
    "form",
    [VALUE, json.dumps(VALUE)[1:-1], json.dumps(VALUE, ensure_ascii=False)[1:-1], quote(VALUE, safe=""),
     b64encode(VALUE.encode()).decode().rstrip("=")],
)  # fmt: skip
def test_each_form_of_a_value_is_found(form: str) -> None:
    assert redact(f"a{form}b") == f"a{SHOWN}b"
    assert found_in(form) == "env:T"


def test_json_stays_json() -> None:
    text = json.dumps({"a": [VALUE, 1, None, True], VALUE: {"deep": f"x{VALUE}"}}, ensure_ascii=False)
    assert decode(redact_json(text)) == {"a": [SHOWN, 1, None, True], SHOWN: {"deep": f"x{SHOWN}"}}
    assert redact_json('{"a": 1}') == '{"a": 1}'


def test_json_in_a_string_of_json_is_searched() -> None:
    inner = json.dumps({"t": VALUE})
    assert decode(redact_json(json.dumps(inner))) == json.dumps({"t": SHOWN})
    assert decode(redact_json(json.dumps([json.dumps({"a": inner})]))) == [json.dumps({"a": json.dumps({"t": SHOWN})})]
    assert redact_json(r'{"a": "\"b\""}') == r'{"a": "\"b\""}'


def test_a_number_that_is_a_secret_becomes_a_marker() -> None:
    redaction.add("env:PIN", "12345678")
    assert redact_json('{"pin": 12345678, "other": 1234567}') == '{"pin":"[secret env:PIN]","other":1234567}'
    assert redact_value([1234567890]) == ["[secret env:PIN]90"]


def test_the_longest_value_at_a_place_is_replaced() -> None:
    redaction.add("env:LONG", "secret-value-and-more")
    redaction.add("env:SHORT", "secret-value")
    assert redact("secret-value-and-more secret-value") == "[secret env:LONG] [secret env:SHORT]"


def test_a_line_of_a_key_is_found_where_lines_are_numbered() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "M" * 40 + "1", "N" * 40 + "2", "-----END PRIVATE KEY-----"]
    redaction.add("file:/key", "\n".join(lines))
    assert redact("\n".join(lines)) == "[secret file:/key]"
    assert redact(f"1\t{lines[1]}\n2\t{lines[2]}\n") == "1\t[secret file:/key]\n2\t[secret file:/key]\n"
    assert redact(lines[0]) == lines[0]


def test_a_marker_is_found_like_the_value() -> None:
    assert found_in(f"echo {SHOWN}") == "env:T"
    assert found_in("echo [secret env:OTHER]") is None


def test_nothing_changes_as_long_as_no_secret_is_known() -> None:
    KNOWN.pattern = None
    text = f"{VALUE} {SHOWN}"
    assert (redact(text), redact_json(text), redact_value(text), found_in(text), redaction.stream()) == (
        text, text, text, None, None,
    )  # fmt: skip


def test_values_in_messages_of_the_log_are_replaced(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("perdure.test")
    logger.warning("Session %s: %s after %d tries.", "u-1", ValueError(VALUE), 3)
    logger.warning(f"It said {VALUE}")  # noqa: G004 - a message that has it already
    logger.warning("%(what)s", {"what": VALUE})
    try:
        raise ValueError(VALUE)
    except ValueError:
        logger.exception("It failed.")
    logging.getLogger("other").warning("%s", VALUE)
    ours, theirs = [[one for one in caplog.records if (one.name == "other") is other] for other in (False, True)]
    assert [one.getMessage() for one in ours] == [
        f"Session u-1: {SHOWN} after 3 tries.", f"It said {SHOWN}", SHOWN, "It failed.",
    ]  # fmt: skip
    assert ours[0].args == ("u-1", SHOWN, 3)
    assert VALUE not in "".join(logging.Formatter().format(one) for one in ours)
    assert [one.getMessage() for one in theirs] == [VALUE]
