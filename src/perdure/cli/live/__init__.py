"""A session at a terminal while it runs: its output, its questions, and what the person types."""
