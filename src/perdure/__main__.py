"""The command line as `python -m perdure`, for an interpreter whose scripts are not on the path."""

import os
import sys

if __name__ == "__main__":
    if sys.path and sys.path[0] == os.getcwd():  # put there by -m; modules of the current folder must not replace ours
        del sys.path[0]

    from perdure.cli import main

    main()
