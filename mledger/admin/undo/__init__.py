"""Undo files, the plan that puts records back, and carrying it out."""
