"""The moves: each writes one kind of edit, on any statement of that kind."""
