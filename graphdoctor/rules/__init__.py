"""Recording to diagnosis: rules by family, and what applies them. Never imports torch or rich."""
