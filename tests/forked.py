"""Something done in a forked process: whatever happens in it, it ends there and never runs on as a second pytest."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def fork(act: Callable[[], object]) -> int:
    """The pid of a child process that does this and exits: with 0, or with 1 if it raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the child uses none of their locks
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        act()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
