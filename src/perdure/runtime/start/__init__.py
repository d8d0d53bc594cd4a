"""The start of sessions, and the queues that they wait in."""
