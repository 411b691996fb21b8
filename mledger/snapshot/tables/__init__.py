"""The tables of a cluster's metadata: their schemas, and the rows of decoded records."""
