"""Exports a recorded program each way, says what blocks it, tries fixes, and finds out which sizes
stay dynamic.
"""
