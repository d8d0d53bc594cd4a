"""Looking at a store from outside: its condition, its counts, and damaged rows."""
