"""hermes-agent's logs: its database, its session export and its trajectories."""
