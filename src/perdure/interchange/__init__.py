"""How sessions leave and come in: versioned, readable, and never the truth."""
