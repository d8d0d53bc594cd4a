"""The parts of `perdure demo`."""
