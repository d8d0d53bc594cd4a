"""Input at a terminal: the keyboard, the editor of the message, its history and its completion."""
