"""Columns of the tables made from many records at once; a record that is unusual in any way is left to `decoder`."""
