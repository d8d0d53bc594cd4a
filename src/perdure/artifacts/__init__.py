"""Large things outside the database, named by the digest of their content. Never hot state."""
