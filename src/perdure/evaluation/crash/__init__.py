"""The crash workload: what its processes do at the sink, how they are killed, and how a trial is conducted.

Every system under test is one process with the same command line, see `worker_arguments`.
"""
