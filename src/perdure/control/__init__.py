"""The control plane: what survives workers, and tells the living from the dead. It moves no session by itself."""
