"""Findings about gates and budgets: approvals that cannot be reached, agents that could approve their own calls, and
models that a budget of costs does not limit."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.control.doctor.report import DoctorReport, Finding, risk, stuck


def of_gates(report: DoctorReport) -> Iterator[Finding]:
    found = report.governance
    if found is None:
        return
    if found.gates.unreachable:
        names = ", ".join(found.gates.unreachable[:3]) + (", …" if len(found.gates.unreachable) > 3 else "")
        yield stuck(
            f"More votes are needed than people may decide: {names}.",
            "Register people with `perdure principals add NAME --role approver --login LOGIN`.",
        )
    if found.principals and found.sandbox == "none":
        yield risk(
            "An agent could approve its own calls: there is no sandbox on this machine, so a command that is allowed "
            "can do what its user can.",
            "Install bubblewrap, or let workers run where no person who may decide has a login.",
        )
    if found.unpriced:
        names = ", ".join(found.unpriced[:3]) + (", …" if len(found.unpriced) > 3 else "")
        yield risk(
            f"A budget limits costs, and these models were used without a known price: {names}.",
            'Limit their tokens: a budget with `of = "tokens"`.',
        )
