"""The child side: the only room that imports torch.

It needs only torch and the standard library, so it runs in any environment that has torch. It imports no other room of
graphdoctor.
"""
