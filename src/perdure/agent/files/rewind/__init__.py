"""Puts the files of a folder back to a snapshot, in place."""
