"""Traces and metrics of what the runtime does. Off unless `perdure.instrument` was called."""
