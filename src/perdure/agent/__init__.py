"""The agent: a program whose state is the log. Model, tools, sandbox and context, all durable."""
