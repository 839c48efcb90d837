"""What is done with a workload, step by step."""
