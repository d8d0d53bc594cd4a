"""Sessions whose history grows, over Perdure and over session blobs, and what a step, a resume and a fork then cost."""
