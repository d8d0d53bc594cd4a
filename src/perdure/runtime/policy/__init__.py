"""The policy at run time: which one is active, what is known of a call, and what a call needs before it begins."""
