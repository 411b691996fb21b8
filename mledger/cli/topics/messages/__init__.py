"""Messages and entries of topics: written, read and followed from the command line."""
