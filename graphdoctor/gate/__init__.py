"""Diagnoses set against each other. Imports models, rules and errors; never torch, a recording or a view."""
