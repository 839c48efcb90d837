"""What is recorded while the program runs."""
