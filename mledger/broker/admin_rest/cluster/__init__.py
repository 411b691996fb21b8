"""What the admin API says about clusters, brokers, bookies and tenants."""
