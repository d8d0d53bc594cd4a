"""The databases a store can live in. Each maps its driver's errors to ours, in one place."""
