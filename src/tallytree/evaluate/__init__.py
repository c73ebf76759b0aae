"""How far released tables are from true ones."""
