"""Measures what torch.compile is worth: each way to run a program, compared with eager mode."""
