"""What is measured about a call."""
