"""Answers that the client takes piece by piece: files, and events of a session from one tail, fanned out."""
