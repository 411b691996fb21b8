"""Owners of topics that are frozen or die at a step."""
