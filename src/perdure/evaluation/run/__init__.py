"""One run of an evaluation: its session, the processes of its trials, and where it was made."""
