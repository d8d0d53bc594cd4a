"""Writing to a store: group commit, its threads and locks, and the wake-ups of readers."""
