"""The policy at run time: its versions and exemptions, which one is active, and what a call needs before it begins."""
