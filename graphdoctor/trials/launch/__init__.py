"""The parent's side of a run: resolve the target's text, start and watch the probe, keep
``.graphdoctor/``.
"""
