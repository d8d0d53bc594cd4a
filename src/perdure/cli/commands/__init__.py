"""One module for each command of the command line, loaded when that command is called."""
