"""Sessions as text files in a folder."""
