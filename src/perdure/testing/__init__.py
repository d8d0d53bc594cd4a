"""What tests of durable programs need: a manual clock, real servers, real failures. Never imported by the rest."""

from __future__ import annotations

from perdure.testing.clock import ManualClock

__all__ = ["ManualClock"]
