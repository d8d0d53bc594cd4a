"""Services: what happens to sessions without a person and without a worker of theirs, such as timers that are due."""
