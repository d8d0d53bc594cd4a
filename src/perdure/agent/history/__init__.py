"""An agent's conversation: the transcript, the part of it that a model is sent, and how its state is read."""
