"""The subscriptions of a topic: consumers, dispatch over a cursor, acknowledgements."""
