"""The sandboxes that `perdure.agent.sandbox` can choose from, strongest first."""
