"""What the project costs, measured in real processes with sync on: `python -m bench`, or one script of this folder."""
