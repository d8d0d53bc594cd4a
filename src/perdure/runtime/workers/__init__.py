"""Worker processes: who they are, which sessions they take, and whether they are still alive."""
