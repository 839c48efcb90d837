"""Recording to diagnosis: one file a rule, and the machinery that applies them. Never imports torch
or rich.
"""
