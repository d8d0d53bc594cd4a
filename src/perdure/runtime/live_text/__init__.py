"""Live text: what a model writes before it is recorded, for watchers on this machine and on others."""
