"""A simulator of whole clusters: one seed is one schedule, and the product's own code runs in it."""
