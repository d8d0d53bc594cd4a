"""A session as one JSON document, in the strengths that the crash workload compares. It uses nothing of the runtime."""
