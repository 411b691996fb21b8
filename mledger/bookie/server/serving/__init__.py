"""What a bookie answers: connections, requests of both protocol versions, and group commit."""
