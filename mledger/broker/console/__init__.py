"""The console of a broker: pages for people, over the admin REST API and with its rights."""
