"""What commands do. In: a ``RunSpec`` and settings. Out: models. No typer, no rich, nothing printed."""
