"""Results of which one trial became void."""

from __future__ import annotations

from perdure.evaluation.workload import Result, Trial


def with_a_void_trial(results: list[Result], system: str) -> list[Result]:
    """The results; the first trial of this system is void."""
    place = next(number for number, one in enumerate(results) if one.system == system)
    one = results[place]
    trial = Trial(id=one.trial, system=one.system, parameters=one.parameters)
    return [*results[:place], Result.void(trial, "OSError: no space"), *results[place + 1 :]]
