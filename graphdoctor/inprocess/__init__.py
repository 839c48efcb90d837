"""The API for scripts and notebooks: the one room that runs the probe in its own process.

``graphdoctor`` itself hands out what is public here, and imports it when it is first asked for.
"""
