"""Whole sessions that leave one store and arrive in another."""
