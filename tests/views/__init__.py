"""Views: the tree of a report, and what each backend makes of it."""
