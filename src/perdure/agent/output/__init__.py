"""What an agent returns: its typed answer, the result of a run, the stream of a run."""
