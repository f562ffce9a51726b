"""Tools: what they are to the agent (`base`), how a typed function becomes one, and the built-in ones."""
