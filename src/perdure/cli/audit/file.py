"""Writing what an audit found to the file that a person named."""

from __future__ import annotations

from pathlib import Path


def write_file(to: str, content: bytes, *, mode: int = 0o600) -> None:
    """Write the file whole, or say why it cannot be written."""
    from perdure.durable import write_whole
    from perdure.errors import ConfigError

    try:
        write_whole(Path(to).absolute(), content, mode=mode)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no name of a file"
        raise ConfigError(f"{to} cannot be written: {why}.", hint="Name a file in a folder that exists.") from error
