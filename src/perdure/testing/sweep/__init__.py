"""Crash sweeps: a program is killed at each of its kill points, run again, and its effects are counted."""
