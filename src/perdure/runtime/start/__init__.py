"""The start of sessions, the queues that they wait in, and their deadlines."""
