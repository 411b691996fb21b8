"""Records of the metadata store: paths, codecs, and plain values."""
