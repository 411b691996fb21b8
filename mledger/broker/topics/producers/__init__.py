"""The producers of a topic: access, names, sequence ids, what they publish."""
