"""Records as text: tables, sentences, and values that are safe to print on a terminal."""
