"""Draw everything that is published about evaluations from the results that are committed.

    python -m tools.evaluation_figures                 write the figures again
    python -m tools.evaluation_figures --check         fail if one differs; part of `make check`
    python -m tools.evaluation_figures --publish DIR   take the workloads of a run into docs/evaluation/results first

For each run in `docs/evaluation/results/WORKLOAD`: `report.md` and its plots, from `plan.json` and `results.jsonl.gz`
alone. From the crash run also the table of README.md and the crash matrix. The list of runs and the page of peers too.
"""

from __future__ import annotations

import ast
import gzip
import re
import sys
from pathlib import Path

import msgspec

from perdure.evaluation.crash.comparison import COLUMNS, comparison_table, places_of, shared
from perdure.evaluation.crash.plan import rank
from perdure.evaluation.crash.summary import WORKER_KILLS, is_point, matrix, short_name
from perdure.evaluation.protocol import protocol_digest
from perdure.evaluation.report.conclusion import command_of, conclusion_of, markdown_report
from perdure.evaluation.report.markdown import table as markdown_table
from perdure.evaluation.report.model import ReportTable
from perdure.evaluation.report.svg import draw
from perdure.evaluation.results import Plan, read_plan
from perdure.evaluation.results import read_results as read_lines
from perdure.evaluation.workload import Result
from tools.peers import LOCKS

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "docs" / "evaluation" / "results"
RESULTS = PUBLISHED / "crash"
MATRIX = "crash-matrix.svg"
PEERS = "peers.md"
PEERS_HEAD = """<!-- Made by tools/evaluation_figures.py from the adapters. Change them, then run it. -->

# Peers

The systems that Perdure is compared with. Each adapter uses the durable seam that the documentation of its system
recommends, and says what that system cannot express. `documented` is as the page recommends; the others are what an
expert adds by hand.
[Fairness](fairness.md) says how to dispute an adapter. A peer that is not installed is "not run", never "failed".
"""
README = ROOT / "README.md"
BEGIN, END = "<!-- evaluation: made by tools/evaluation_figures.py -->\n", "<!-- end of evaluation -->\n"
EARLIER = "an earlier protocol; [protocol.md](../protocol.md) was changed since"


def read_results(folder: Path) -> list[Result]:
    """The results of a published run."""
    lines = gzip.decompress((folder / "results.jsonl.gz").read_bytes()).splitlines()
    return [msgspec.json.decode(line, type=Result) for line in lines]


def plan_of(folder: Path) -> Plan:
    """What a published run was asked to do."""
    plan = read_plan(folder)
    if plan is None:
        raise ValueError(f"{folder} has no plan.json")
    return plan


def published(home: Path = PUBLISHED) -> list[Path]:
    """The folder of each published run."""
    return sorted(path.parent for path in home.glob("*/plan.json"))


def publish(run: Path, home: Path = PUBLISHED) -> list[Path]:
    """Take each workload of a run into a folder of its own: its plan and its results."""
    plan, results, made = plan_of(run), read_lines(run), []
    if plan.only:
        raise ValueError(f"{run} has single trials only; a run that is published is whole")
    for name in plan.workloads:
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in results if one.workload == name)
        (folder / "results.jsonl.gz").write_bytes(gzip.compress(lines, mtime=0))
        own = msgspec.structs.replace(plan, workloads=[name])
        (folder / "plan.json").write_bytes(msgspec.json.encode(own) + b"\n")
        made.append(folder)
    return made


def report_files(folder: Path) -> dict[Path, str]:
    """The report on a published run, and its plots."""
    plan, results = plan_of(folder), read_results(folder)
    made = conclusion_of(plan, results)
    files, names = {}, {}
    for section in (section for report in made.reports for section in report.sections):
        if section.plot is not None:
            name = re.sub(r"[^a-z0-9]+", "-", section.plot.title.lower()).strip("-")
            names[section.plot.title] = f"{name}.svg"
            files[folder / f"{name}.svg"] = draw(section.plot, name) + "\n"
    return {folder / "report.md": markdown_report(plan, results, made, names), **files}


def readme_block(results: list[Result], plan: Plan) -> str:
    """What stands between the two marks in README.md."""
    table = markdown_table(comparison_table(results))
    said = [places_of(shared(results, column)) for column in COLUMNS]
    same = f"every row {said[0]}" if len({*said}) == 1 else f"by column, {'; '.join(said)}"
    where = f"The service killed {same}."
    return "\n".join([BEGIN, *table, "", f"{where} Made by `{command_of(plan)}`.", "", END.rstrip(), ""])


def runs_block(home: Path = PUBLISHED) -> str:
    """The list of runs on the page of results."""
    rows = []
    for folder in published(home):
        plan = plan_of(folder)
        same = plan.protocol == protocol_digest()
        rows.append([
            f"[{folder.name}]({folder.name}/report.md)", f"`{command_of(plan)}`", str(plan.form),
            plan.machine.get("began", "not recorded"), "[the protocol](../protocol.md)" if same else EARLIER,
        ])  # fmt: skip
    head = ReportTable(["run", "command", "form", "began", "judged by"], [])
    lines = [*markdown_table(head), *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join([BEGIN, *lines, "", END.rstrip(), ""])


def peers_page() -> str:
    """What each peer is, from the sources of the adapters and the locks: nothing has to be installed."""
    parts = []
    for path in sorted((ROOT / "evaluation" / "peers").glob("*_peer.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assigned = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
        peer = ast.literal_eval(assigned["PEER"])
        lock = (LOCKS / f"{path.name.removesuffix('_peer.py')}.lock").read_text(encoding="utf-8")
        pinned = [re.search(rf"^({re.escape(name)}==[^ ]+)", lock, re.MULTILINE) for name in peer["packages"]]
        settings = [f"- {name}: {value}" for name, value in peer["settings"].items()]
        configurations = [f"| `{name}` | {words} |" for name, words in peer["configurations"].items()]
        versions, where = ", ".join(f"`{one[1]}`" for one in pinned if one), " and ".join(peer["substrates"])
        followed = f"The adapter `evaluation/peers/{path.name}` follows [this page]({peer['page']})."
        parts += [
            f"## {peer['system']}", "", f"{versions}, on {where}. {followed}", "",
            "| configuration | what it is |", "|---|---|", *configurations, "", "Settings:", "", *settings, "",
            "It cannot:", "", *(f"- {one}" for one in peer["cannot"]), "",
        ]  # fmt: skip
    return "\n".join([PEERS_HEAD, *parts])


def crash_matrix(results: list[Result]) -> str:
    """The crash matrix as SVG: where a worker was killed from outside, and the worst that happened there."""
    own = [one for one in results if not one.parameters.get("planted") and not is_point(one)]
    own = [one for one in own if not str(one.parameters.get("kill", "")).startswith("server:")]
    rows = list(dict.fromkeys(short_name(one.system) for one in sorted(own, key=lambda one: rank(one.system))))
    made = matrix("Worker killed", own, WORKER_KILLS, rows, lambda one: short_name(one.system)).plot
    assert made is not None
    return draw(made, "crash-matrix") + "\n"


def with_block(page: str, block: str) -> str:
    """The page with the block between the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no place for what is drawn")
    return before + block + after


def expected(home: Path = PUBLISHED, readme: Path = README) -> dict[Path, str]:
    """Each file that is drawn, with the text that it must have."""
    crash, listing = home / "crash", home / "README.md"
    results = read_results(crash)
    page = with_block(readme.read_text(encoding="utf-8"), readme_block(results, plan_of(crash)))
    runs = with_block(listing.read_text(encoding="utf-8"), runs_block(home))
    files = {path: text for folder in published(home) for path, text in report_files(folder).items()}
    return {
        **files,
        crash / MATRIX: crash_matrix(results),
        readme: page,
        listing: runs,
        home.parent / PEERS: peers_page(),
    }


def differences(home: Path = PUBLISHED, readme: Path = README) -> list[str]:
    """The files that differ from the results, and files that nothing draws any more."""
    wanted = expected(home, readme)
    wrong = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale = [path for folder in published(home) for path in folder.glob("*.svg") if path not in wanted]
    return [path.name for path in (*wrong, *stale)]


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        if wrong := differences():
            print(f"{', '.join(wrong)}: differs from the results; python -m tools.evaluation_figures", file=sys.stderr)
        return bool(wrong)
    if arguments[:1] == ["--publish"]:
        for run in arguments[1:]:
            publish(Path(run))
    wanted = expected()
    for path in (path for folder in published() for path in folder.glob("*.svg") if path not in wanted):
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
