"""Sinks of the events of ``graphdoctor.watch``: one file for each kind.

A sink's library is imported when the sink is opened.
"""
