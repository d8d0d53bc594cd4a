"""Perdure: sessions of AI coding agents that survive anything, and do nothing twice."""

__version__ = "0.1.0"

__all__ = ["__version__"]
