"""What Perdure costs, measured against the raw drivers in the same run. `python -m benchmarks`, or `make bench`."""
