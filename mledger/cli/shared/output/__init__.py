"""What commands print: tables, records and entries, in every format."""
