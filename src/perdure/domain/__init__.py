"""The nouns: their states, their legal moves, their digests. Pure: no clock, no database, no input or output."""
