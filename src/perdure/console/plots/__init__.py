"""What the pages draw, in percent of their width, each with a table that has the same."""
