"""What a program calls besides steps and effects: recorded values, retries, and calls side by side."""
