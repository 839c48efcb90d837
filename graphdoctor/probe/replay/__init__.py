"""Calls made again under a change, and what came out."""
