"""Programs and tools as their authors declare them: decorators, signatures and stored types."""
