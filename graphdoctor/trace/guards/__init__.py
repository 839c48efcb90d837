"""torch's guards as text: read once, for causes of recompiles and for the guards of each
compile.
"""
