"""What a worker without database rights and the service say to each other: which moves and reads, and in which form."""
