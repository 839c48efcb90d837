"""Catalogs: which architectures a library has, and a small program of each."""
