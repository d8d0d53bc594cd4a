"""The evaluation: the protocol of the source paper as a command, `perdure evaluate`, on substrates and on peers.

Adding a workload takes three files and a line:

    workloads/NAME.py     opens with claim, method, oracle and what would refute it; `WORKLOAD` is its class, see below
    verifiers/NAME.py     a script of the standard library alone, run as `python -I -S NAME.py FOLDER`. It reads what
                          the trials left below FOLDER (a folder for each trial) and prints a JSON line for each:
                          {"trial": id, "verdicts": {name: count}, "findings": {name: text}, "void": reason or ""}
    catalogue.WORKLOADS   names the module
    docs/evaluation/protocol.md   says beforehand what is measured and what refutes the claim

    class Growth:                                                   a `workload.Workload`
        name = "growth"
        lanes = 1                                                   trials that run at the same time; 1 to measure time
        def trials(self, form, rounds=0) -> list[Trial]: ...        pure data: id, system, parameters, seed
        def run(self, trial, folder) -> Result: ...                 fresh processes; raw files in `folder`
        def summarise(self, results) -> WorkloadReport: ...         sections of tables and plots, controls, hypotheses

`run` returns what it measured: `Result.of(trial, measures={"seconds": 1.5})`; `Result.not_run(trial, "DBOS is not
installed")` where a system is missing, which is never a failure; `Result.void(trial, "the kill did not happen")` for a
trial that shows nothing, which is counted. Verdicts are added by the verifier. A step that is killed runs again: its
folder is emptied first, and the number of attempts is in the results.

Trials find shared servers in `services`: `services.sink()`, `services.postgres()`. `statistics` has Wilson intervals
`measurement` the rounds and ratios that `benchmarks/` uses too, `payload` text that does not
compress. `report.model` has `Section`, `ReportTable`, `LinePlot`, `Matrix`; they are drawn as HTML and as Markdown.

    perdure evaluate growth --seed 7      the session keeps only progress; results come from raw files
        -> session.step per batch         -> run(trial) -> raw/growth/TRIAL/{trial.json,...}
        -> verifiers/growth.py            -> results.jsonl
        -> summarise(results)             -> report.html, report.md, exit code
"""
