"""What all topics of a cluster share: watches of brokers and policies, and one timer for scheduled work."""
