"""How people sign in to the console: the cookie of a browser, tokens, OpenID Connect, a trusted proxy."""
