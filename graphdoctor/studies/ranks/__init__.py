"""What the ranks of a job did, side by side: a recording and a diagnosis of each rank in, a ``Job``
out.
"""
