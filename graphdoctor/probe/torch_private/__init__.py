"""torch's private names, every version difference, and hooks on torch that can be removed."""
