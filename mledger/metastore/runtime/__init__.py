"""What every server and owner shares: settings files, logs, an HTTP endpoint, time buckets."""
