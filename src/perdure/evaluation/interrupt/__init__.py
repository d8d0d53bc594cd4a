"""Sessions that an older Perdure suspended, and what becomes of them after days, a migration and other code."""
