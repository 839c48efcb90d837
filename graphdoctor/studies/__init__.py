"""Studies of a program: one folder for each question, from measuring to the answer."""
