"""Storage of the bytes of trace logs: files, compressed or not; knows nothing of what is in
them.
"""
