"""Where the bytes of trace logs lie: files, compressed or not; knows nothing of what is in them."""
