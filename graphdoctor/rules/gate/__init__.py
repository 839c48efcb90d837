"""Judges diagnoses against a baseline, budgets and expectations. Imports models, rules and errors;
never a view.
"""
