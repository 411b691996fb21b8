"""What the admin API does with topics, their subscriptions and messages."""
