"""A worker without database rights: its store is a service."""
