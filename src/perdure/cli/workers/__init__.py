"""Worker processes of the command line: their options, and the supervised tree."""
