"""The paths of the operations as a tree: finding one takes as long as its path, however many operations there are."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.server.operation import Operation

Parameters = dict[str, str]
Operations = dict[str, Operation]  # by method


class _Branch:
    """What begins with the same segments."""

    __slots__ = ("any", "named", "names", "operations")

    def __init__(self) -> None:
        self.named: dict[str, _Branch] = {}  # by their next segment
        self.any: _Branch | None = None  # whatever their next segment
        self.operations: Operations = {}
        self.names: list[str] = []  # of the parameters of the path


class OperationPaths:
    """Finds operations by their path. A segment that is named is found before a parameter."""

    def __init__(self, table: Iterable[Operation]) -> None:
        self._root = _Branch()
        for one in table:
            branch = self._root
            segments = one.path.split("/")
            for segment in segments:
                if segment.startswith("{"):
                    branch.any = branch.any or _Branch()
                    branch = branch.any
                else:
                    branch = branch.named.setdefault(segment, _Branch())
            branch.names = [segment[1:-1] for segment in segments if segment.startswith("{")]
            branch.operations[one.method] = one
            if one.method == "GET":
                branch.operations["HEAD"] = one

    def find(self, path: str) -> tuple[Operations, Parameters]:
        """The operations at a path by their method, and the parameters that it has; none if there is no such path."""
        values: list[str] = []
        found = _find(self._root, path.split("/"), 0, values)
        return ({}, {}) if found is None else (found.operations, dict(zip(found.names, values, strict=True)))


def _find(branch: _Branch, segments: list[str], at: int, values: list[str]) -> _Branch | None:
    if at == len(segments):
        return branch if branch.operations else None
    segment = segments[at]
    named = branch.named.get(segment)
    if named is not None and (found := _find(named, segments, at + 1, values)) is not None:
        return found
    if branch.any is None or not segment:
        return None
    values.append(segment)
    if (found := _find(branch.any, segments, at + 1, values)) is None:
        values.pop()
    return found
