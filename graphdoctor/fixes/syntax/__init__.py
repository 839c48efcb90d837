"""Source as a concrete syntax tree: what recipes share. Knows no recipe."""
