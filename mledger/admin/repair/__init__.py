"""What is wrong with the records of topics, and their repair."""
