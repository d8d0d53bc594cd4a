"""Secrets: references to them, the values that this process knows, and what replaces these in text."""
