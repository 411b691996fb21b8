"""The tables of a cluster's metadata: one place for each schema, and the rows of decoded records."""
