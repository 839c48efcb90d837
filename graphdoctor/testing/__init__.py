"""What the pytest plugin gives to a test: recordings with assertions, in a torch that is put back afterwards.

``graphdoctor.pytest_plugin`` imports it when a test asks for it. It may import pytest; torch is the probe's.
"""
