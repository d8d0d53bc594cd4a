"""A pytest plugin: where everything is required, a skipped test is a failed test.

A CI machine has everything that the tests need, so a skip there hides a failure.
"""

import os
from collections.abc import Generator

import pytest

REQUIRED = os.environ.get("CI") == "true" or os.environ.get("PERDURE_REQUIRE") == "all"


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped here, and this was: {reason}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report
