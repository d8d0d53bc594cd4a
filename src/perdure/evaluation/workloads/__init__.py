"""The workloads of the evaluation, one module each."""
