"""The exact tree of a server at a zxid: which files give it, how transactions complete it, and its digest."""
