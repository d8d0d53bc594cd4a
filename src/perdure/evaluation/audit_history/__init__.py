"""Long histories for audits: `history` writes one, `story` is one session of it."""
