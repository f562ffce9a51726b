"""Model back ends, and the text protocols that they speak."""
