"""The tools that ship, each with the replay rule it deserves."""
