"""Clusters to take snapshots of, their exports, and where those go."""
