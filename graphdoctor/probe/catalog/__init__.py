"""Catalogs: which architectures a library has, and a small program of each.

One module or folder for each library, registered in ``registry.py``. It says which architectures there are, how each
can be built, smallest first, and which inputs it might take (``library.py``); ``search.py`` tries these until one runs
in eager mode, and ``program.py`` writes it down. Nothing is loaded from the network, and no weights at all.
"""
