"""Deploys: the version of the code, whether records fit it, workspaces, and the migration of the store."""
