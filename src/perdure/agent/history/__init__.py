"""What an agent has said and heard: its transcript, the part of it that a model is shown, and how it is read."""
