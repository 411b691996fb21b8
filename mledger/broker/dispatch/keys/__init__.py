"""Keys' hashes, and which consumer a hash belongs to."""
