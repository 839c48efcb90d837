"""The child side: the only room that imports torch.

It needs torch and the standard library and nothing else, so that it runs in any environment that has torch
(``--python other/.venv/bin/python``). It imports no other room of graphdoctor.
"""
