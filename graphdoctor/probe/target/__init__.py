"""From what a request names to something that can be called, and its state."""
