"""SQLite, through apsw."""
