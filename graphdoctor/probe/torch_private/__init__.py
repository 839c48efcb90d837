"""torch's private names, each version difference, hooks on torch that are taken out again."""
