"""Where a process becomes a probe."""
