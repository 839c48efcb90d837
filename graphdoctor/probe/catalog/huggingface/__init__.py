"""What the catalog of transformers is made of; importing one of these doesn't import the library, but for ``names``."""
