"""The models that ship with Perdure: one module for each provider, imported when a model of it is named."""
