"""Summaries of a survey's rows: groups, shared causes, two surveys side by side."""
