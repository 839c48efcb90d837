"""The API for scripts and notebooks: the only room that runs the probe in its own process.

``graphdoctor`` exports the public names and imports this room on first use.
"""
