"""What a person sees of a session: the status line, Markdown, and diffs."""
