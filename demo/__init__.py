"""The main job on real input, as a user of the public API."""
