"""Snapshots that leave with a session and arrive with one: as a git pack."""
