"""Write `docs/reference/`: errors, settings, commands and public names, from the code itself.

Run `python -m tools.reference` after changing one of them; a tidy test says when that was forgotten.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import click

import perdure
from perdure import cli, config, errors

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- Made by tools/reference.py from the code. Change the code, then run `python -m tools.reference`. -->\n"
WIDTH = 100


def pages() -> dict[str, str]:
    """Every page by its name."""
    return {
        "cli.md": commands_page(),
        "errors.md": errors_page(),
        "python.md": names_page(),
        "settings.md": settings_page(),
    }


def page(title: str, *parts: str) -> str:
    return "\n\n".join([MADE + f"\n# {title}", *(part.strip() for part in parts)]) + "\n"


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def summary(thing: object) -> str:
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def errors_page() -> str:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    rows = [
        [f"`{kind.code}`", f"`{kind.__name__}`", summary(kind), kind.hint, "yes" if kind.retry else "no"]
        for kind in kinds
        if issubclass(kind, errors.PerdureError)
    ]
    intro = """
Every error that Perdure raises on purpose is a `perdure.PerdureError`. It says what happened in one sentence;
`code` is stable and meant for programs, `hint` says what to do, `retry` whether doing the same again can help. A more
precise hint may come with the error itself. `Suspended` is no error: it unwinds a program that waits.
"""
    tree = inspect.getdoc(errors) or ""
    drawn = (
        "```text\n" + inspect.cleandoc(tree[tree.index("    PerdureError") : tree.index("\nAn error says")]) + "\n```"
    )
    return page("Errors", intro, table(["code", "error", "what it means", "what to do", "retry helps"], rows), drawn)


def settings_page() -> str:
    rows = [[f"`{one.name}`", f"`{one.env}`", one.meaning, one.default] for one in config.SETTINGS]
    intro = """
A setting comes from your own file (`~/.config/perdure/config.toml`), from `perdure.toml` in the current folder, from
the environment or from an option of the command; the later of these wins. A name in a file that is no setting, or a
value of another kind, is an error. A name in the environment that looks like one of these and is none is warned of.

`perdure.toml` may have come with a repository, and it can name code to run and the address that your API key is sent
to. So it is used only after you trusted its exact content: a command asks once at a terminal, shows what changed when
it changes, and refuses the file where there is no terminal. `perdure trust` does the same without another command, and
`perdure trust --digest DIGEST` where nobody can be asked. A file that sets nothing but `connections` needs no trust.
"""
    debug = f"""
`{config.IGNORE_FOLDER}=1`, in the environment only, leaves `perdure.toml` of the current folder unread.
`{config.DEBUG}=1`, in the environment only, shows the traceback of an error that Perdure did not foresee.
`{config.LOG}=debug`, in the environment only, shows [log messages](../how-to/logging.md) from that level on: `debug`,
`info`, `warning` (the default) or `error`.
"""
    example = """
```toml
# perdure.toml
store = "postgresql://perdure@db.example.org/perdure"
connections = 16
app = ["review", "tools/deploy.py"]
```
"""
    return page(
        "Settings", intro, table(["in perdure.toml", "environment", "meaning", "default"], rows), example, debug
    )


def commands_page() -> str:
    intro = """
Every command takes `--store`, `--json`, `--app` and `--verbose`, and reads the [settings](settings.md). An id may be
any beginning of it that only one thing has. With `--json` a command prints one JSON object, or one a line for a list,
with the field names of the records, and an error is an object too: `{"error": {"code", "message", "hint", "retry"}}`
on the standard error. Without it, an error is one sentence, its [code](errors.md) and what to do.
"""
    codes = table(
        ["exit code", "meaning"],
        [
            ["0", "done"],
            ["1", "failed"],
            ["2", "wrong use"],
            ["3", "waiting for a person"],
            ["4", "held elsewhere"],
            [
                "141",
                "the reader of the output closed its end of the pipe, as `head` does; what the command did is done",
            ],
        ],
    )
    top = click.Context(cli.perdure, info_name="perdure", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    parts = [usage(top)]
    for name in cli.COMMANDS:
        found = cli.perdure.get_command(top, name)
        assert found is not None
        parts.append(f"## perdure {name}")
        parts.append(usage(click.Context(found, parent=top, info_name=name)))
    return page("The command line", intro, codes, *parts)


def usage(context: click.Context) -> str:
    return f"```text\n{context.get_help()}\n```"


def names_page() -> str:
    rows = [[f"`{name}`", meaning_of(name)] for name in sorted([*perdure.__all__, "open"])]
    intro = """
What `import perdure` offers. `perdure.open` is not part of `from perdure import *`, because it would replace the
builtin. The only other public module is `perdure.testing`; everything else may move between versions.
"""
    return page("Public names", intro, table(["name", "what it is"], rows))


def meaning_of(name: str) -> str:
    thing = getattr(perdure, name)
    return "The version of this package." if name == "__version__" else summary(thing)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
