"""A session as a stream of typed events: what is recorded, exactly, and live text between."""
