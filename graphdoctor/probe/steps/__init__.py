"""What is done with a workload: its calls, then measurements."""
