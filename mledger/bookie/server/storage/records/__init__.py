"""What the journal's records mean: gathering, encoding, replaying and rewriting them."""
