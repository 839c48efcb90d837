"""Where the events of ``graphdoctor.watch`` go: one file for each kind of sink.

A sink's library is imported when the sink is opened.
"""
