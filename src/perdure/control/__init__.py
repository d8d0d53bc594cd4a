"""The control plane: what survives workers, and looks after them and their stores. It moves no session by itself."""
