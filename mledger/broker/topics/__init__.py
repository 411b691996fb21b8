"""What a broker keeps of a topic: producers, subscriptions, consumers, and what is published."""
