"""What every request passes: host, origin and rate, and idempotency keys."""
