"""Crash sweeps: a program is killed at every moment that matters, run again, and its effects are counted."""
