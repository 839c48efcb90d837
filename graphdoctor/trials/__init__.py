"""Runs programs again in fresh probes, untouched or changed, and times them in turns."""
