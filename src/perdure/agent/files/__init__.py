"""The files that an agent works on: snapshots, branches with folders of their own, and merges."""
