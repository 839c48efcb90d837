"""Says whether compiled code computes what eager mode does, and where it first differs."""
