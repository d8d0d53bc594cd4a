"""One run of a session: take its lease, replay its records, run its program, and record what follows."""
