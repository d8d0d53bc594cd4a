"""A command that lists, with subcommands: `perdure facts` lists facts, and `perdure facts set` writes one.

The first word that is no option decides. It is the name of a subcommand, or it belongs to the listing, or, where a
command shows one record, it is the id of that record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perdure.cli import did_you_mean
from perdure.cli.shell import CompletedText
from perdure.errors import ConfigError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ListingCommand(click.Command):
    """A listing with subcommands. `record` is the command for any other first word, such as `perdure effects ID`.

    `listed` is what the subcommands are, if the listing names them.
    """

    def __init__(
        self, listing: click.Command, subcommands: dict[str, click.Command], record: click.Command | None = None,
        listed: str = "subcommand",
    ) -> None:  # fmt: skip
        super().__init__(name=listing.name, callback=listing.callback, params=listing.params, help=listing.help)
        self.subcommands = subcommands
        self.record = record
        self.listed = listed
        self.takes_word = record is not None or any(isinstance(one, click.Argument) for one in self.params)
        for one in self.params:
            if isinstance(one, click.Argument) and isinstance(one.type, CompletedText):
                one.type = CompletedText(one.type.kind, tuple(subcommands))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        place = self._first_word(args)
        word = None if place is None else args[place]
        if place is not None and word in self.subcommands:
            rest = args[:place] + args[place + 1 :]
            return self.subcommands[word].make_context(f"{info_name} {word}", rest, parent, **extra)
        if self.record is not None and word is not None:
            return self.record.make_context(info_name, args, parent, **extra)
        if word is not None and not self.takes_word and parent is not None and not parent.resilient_parsing:
            near = did_you_mean(word, self.subcommands)
            if self.listed != "subcommand":
                hint = f"`perdure {info_name}` lists the {self.listed}s."
                raise ConfigError(f"There is no {self.listed} {word!r}.{near}", hint=hint)
            click.Context(self, parent, info_name).fail(f"`perdure {info_name}` has no subcommand {word!r}.{near}")
        return super().make_context(info_name, args, parent, **extra)

    def _first_word(self, args: list[str]) -> int | None:
        """The place of the first argument that is neither an option nor the value of one."""
        flags = {name for one in self.params if isinstance(one, click.Option) and one.is_flag for name in one.opts}
        place = 0
        while place < len(args) and args[place].startswith("-"):
            takes_value = args[place] not in flags | {"-h", "--help"} and "=" not in args[place]
            place += 2 if takes_value else 1
        return place if place < len(args) else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        rows = [(name, one.get_short_help_str(120)) for name, one in self.subcommands.items()]
        if self.record is not None:
            rows.append((str(self.record.params[0].make_metavar(ctx)), self.record.get_short_help_str(120)))
        with formatter.section("Subcommands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name) for name in self.subcommands if name.startswith(incomplete)]
        if self.record is not None:
            found += self.record.params[0].shell_complete(ctx, incomplete)
        return found + super().shell_complete(ctx, incomplete)
