"""The models that ship, one module each, imported when one of them is named."""
