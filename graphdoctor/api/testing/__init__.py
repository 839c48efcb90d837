"""What the pytest plugin gives a test: recordings with assertions, and torch's state restored
afterwards.

``graphdoctor.pytest_plugin`` imports it when a test asks for it. It may import pytest, and leaves
torch to the probe.
"""
