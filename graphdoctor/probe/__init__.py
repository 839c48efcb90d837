"""The child side: the only room that imports torch.

It needs only torch and the standard library, so it runs in any environment that has torch. Of the
other rooms it imports ``facts`` alone, by relative names: both are loaded by path, where
graphdoctor may not be installed.
"""
