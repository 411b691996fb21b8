"""What administration and brokers keep in metadata: tenants, namespaces, schemas, brokers."""
