"""Live text for watchers on other machines, over PostgreSQL."""
