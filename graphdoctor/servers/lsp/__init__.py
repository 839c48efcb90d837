"""A language server: what lint and the newest recordings know of the files that an editor has
open.
"""
