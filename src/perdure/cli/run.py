"""`perdure run`: begin a session of a program, or go on with it, here and now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.command import Shell, command, person

if TYPE_CHECKING:
    from perdure.runtime.program import Bound, Program


@command
@click.argument("program")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--id", metavar="NAME", help="The session's name; with a name that is known, that session goes on.")
@click.option("--repo", metavar="DIR", help="The repository that it works on.")
@click.option("--owner", metavar="NAME", help="Whose session it is; by default whoever starts it.")
@click.option("--title", metavar="TEXT", help="What it is about, for people.")
@person
def run(
    shell: Shell,
    program: str,
    arguments: tuple[str, ...],
    id: str | None,
    repo: str | None,
    owner: str | None,
    title: str | None,
) -> int:
    """Run a program as a session, to its end or to where only a person can go on.

    A VALUE that is JSON is taken as JSON, anything else as text. Run it again under the same --id after a crash: it
    goes on from where it was. Exits with 3 when it waits for a person, and says what to type; with 4 when another
    process has the session.
    """
    from perdure.cli.moving import move
    from perdure.errors import ConfigError

    shell.load()
    if id is not None and not id.strip():
        raise ConfigError("The session's id is empty.", hint="Leave --id out, and a name is made.")
    bound = bind(find(program), arguments)
    return move(
        shell,
        lambda runtime: runtime.start(bound, id=id, owner=owner or shell.by, repository=repo, title=title),
        create=True,
    )


def find(name: str) -> Program[..., Any]:
    """A program that is loaded, or a sentence about those that are."""
    from perdure.errors import ProgramUnknown
    from perdure.runtime.program import PROGRAMS

    if name in PROGRAMS:
        return PROGRAMS[name]
    loaded = f"Loaded are {', '.join(sorted(PROGRAMS))}." if PROGRAMS else "None is loaded."
    missing = "Name the module that defines it: --app MODULE, or `app` in perdure.toml."
    hint = "Check the name, or add the module that defines it with --app." if PROGRAMS else missing
    raise ProgramUnknown(f"There is no program {name!r}. {loaded}", hint=hint)


def bind(program: Program[..., Any], given: Sequence[str]) -> Bound[Any]:
    """The program with its arguments, validated."""
    from perdure.errors import ConfigError
    from perdure.runtime.program import Bound

    names = list(program.shape.json_schema().get("properties", {}))
    usage = " ".join(["perdure", "run", program.name, *(f"{name}=VALUE" for name in names)])
    values: dict[str, Any] = {}
    for one in given:
        key, equals, text = one.partition("=")
        if not equals or not key:
            raise ConfigError(f"{one!r} is not of the form key=value.", hint=f"Type `{usage}`.")
        if key in values:
            raise ConfigError(f"{key} is given twice.", hint="Give each argument once.")
        values[key] = parsed(text)
    try:
        return Bound(program, program.shape.bind((), values))
    except ConfigError as error:
        quote = "Text that looks like a number is quoted twice: name='\"7\"'."
        raise ConfigError(error.message, hint=f"Type `{usage}`. {quote if values else ''}".rstrip()) from None


def parsed(text: str) -> Any:
    """JSON as what it says, anything else as text."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
