"""Running git: the command line, its sandbox, and the programs that a repository would have it start."""
