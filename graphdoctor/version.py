"""The version of graphdoctor."""

__version__ = "0.2.0"
