"""Supervision: a tree of processes that are started in order, restarted within a budget, and stopped in reverse."""
