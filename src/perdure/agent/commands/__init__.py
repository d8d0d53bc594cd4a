"""Running commands: the sandbox, the process that starts a command and outlives the worker, and its outcome."""
