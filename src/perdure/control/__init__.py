"""The control plane: operations on stores, sessions and branches that do not belong to one run of a session."""
