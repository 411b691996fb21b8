"""Java's BookKeeper and Pulsar as processes, and what drives them."""
