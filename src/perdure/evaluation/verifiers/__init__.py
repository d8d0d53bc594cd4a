"""One script per workload that judges raw files. It uses the standard library alone and never imports Perdure."""
