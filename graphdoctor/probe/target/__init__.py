"""From the names in a request to a callable, its calls and its state."""
