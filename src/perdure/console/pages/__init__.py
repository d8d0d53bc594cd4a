"""The pages of the console: what each reads, and the template that shows it."""
