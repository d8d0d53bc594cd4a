"""The subcommands of `perdure audit` that are no questions."""
