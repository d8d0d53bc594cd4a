"""The moves and reads of each table: one module for each noun."""
