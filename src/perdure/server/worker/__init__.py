"""The service for workers without database rights: what they may move and read, and what is judged again here."""
