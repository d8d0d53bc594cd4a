"""What auditors keep outside the store: heads of its logs, and reports."""
