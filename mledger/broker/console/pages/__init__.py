"""What each address of the console shows."""
