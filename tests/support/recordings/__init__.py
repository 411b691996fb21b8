"""What Java recorded, and its meaning in our values."""
