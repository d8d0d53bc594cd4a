"""The runtime: durable programs, and the ledger that lets their effects happen once.

One function, one decision, one transaction. It never writes SQL and never reads a clock but the store's.
"""
