"""The files of a session's branches: compare, merge, rewind and prune them."""
