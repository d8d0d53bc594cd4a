"""The protocol: what is measured and what refutes a claim, written down before the run.

The digest of the file is in the results, so that a reader can tell whether it was changed afterwards.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import perdure

NAME = "protocol.md"


def protocol_file() -> Path:
    """The protocol, in the package or in the source tree."""
    package = Path(perdure.__file__).parent
    shipped = package / "evaluation" / NAME
    return shipped if shipped.exists() else package.parents[1] / "docs" / "evaluation" / NAME


def protocol_digest() -> str:
    """The digest of the protocol as it is now."""
    return sha256(protocol_file().read_bytes()).hexdigest()
