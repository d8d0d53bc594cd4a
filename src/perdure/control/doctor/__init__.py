"""What `perdure doctor` reports: the state of a store, findings, and the depth of a deployment."""
