"""Changes that the console plans, shows and carries out."""
