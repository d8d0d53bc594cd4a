"""What monitoring asks of the service: health and metrics."""
