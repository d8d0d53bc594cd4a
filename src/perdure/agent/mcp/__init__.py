"""Servers of the Model Context Protocol as sources of tools. The package `mcp` is imported by the first connection."""
