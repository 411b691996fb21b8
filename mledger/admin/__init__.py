"""Topics and cursors inspected without opening them: nothing is fenced, recovered or written."""
