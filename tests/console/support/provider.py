"""A real provider of OpenID Connect, from npm, run by the Node.js that the development install has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.npm import NODE, installed

SOURCE = Path(__file__).parents[1] / "provider"


@contextmanager
def provider(redirect: str, secret: str = "") -> Iterator[str]:
    """Run it for one client; yields its issuer."""
    words = [str(NODE), "provider.mjs", redirect, *filter(None, [secret])]
    with subprocess.Popen(
        words, cwd=installed(SOURCE), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = next(one for one in process.stdout if one.startswith("http://"))
            yield line.strip()
        finally:
            process.kill()
