"""The store: the only SQL, and the moves that use it.

A module per noun holds its moves (`session.create`, `wait.park`, ...) and its reads. Moves are values: making one
does nothing, `store.write(move)` commits it. This package never decides what to do next; it records what was decided.
"""

import logging

logging.getLogger("perdure").addHandler(logging.NullHandler())  # a library logs nothing unless logging is configured
