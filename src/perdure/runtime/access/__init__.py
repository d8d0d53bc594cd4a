"""Who may use a store, with which credentials, and the log of what they read."""
