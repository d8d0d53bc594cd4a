"""The mask of well-known forms of secrets, for the eyes of people."""

from __future__ import annotations

import json

import pytest

from perdure.secrets import redaction
from perdure.secrets.mask import mask, mask_value

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAQ==\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("sk-" + "ant-api03-" + "aB1_" * 10, "sk-***"),
        ("sk-proj-" + "x1Y2" * 8, "sk-***"),
        ("ghp_" + "a1" * 18, "ghp_***"),
        ("github_pat_" + "A1" * 20, "github_***"),
        ("glpat-" + "a1" * 10, "glpat-***"),
        ("AKIA" + "IOSFODNN7EXAMPLE", "AKIA***"),
        ("AIza" + "b1" * 17 + "c", "AIza***"),
        ("xoxb-" + "123456789012-abc", "xoxb-***"),
        ("prd_" + "0123456789_" + "a" * 43, "prd_***"),
        (KEY, "-----BEGIN RSA PRIVATE KEY-----***"),
        (json.dumps(KEY), '"-----BEGIN RSA PRIVATE KEY-----***"'),
        ("Authorization: Bearer " + "abc.def-" * 4, "Authorization: Bearer ***"),
    ],
)
def test_a_well_known_form_is_masked(secret: str, shown: str) -> None:
    assert mask(f"a {secret} b") == f"a {shown} b"
    assert mask_value({"k": [secret, 1]}) == {"k": [shown, 1]}


@pytest.mark.parametrize(
    "text",
    ["ask-questions-and-get-answers-now", "sk-learn-pipelines-and-models", "ghp_short", "bearer of good news", "AKIA",
     "e-0123456789abcdef", "risk-2024-assessment-report", "0d5e" * 16],
)  # fmt: skip
def test_ordinary_text_is_not_masked(text: str) -> None:
    assert mask(text) == text


def test_known_secrets_are_masked_with_their_marker() -> None:
    redaction.add("env:T", "a-value-of-a-test")
    assert mask("x a-value-of-a-test") == "x [secret env:T]"
