"""Surveys: running their pieces, summing up rows, and comparing two surveys."""
