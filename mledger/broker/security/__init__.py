"""Who may connect to a broker, and what each role may do: settings, TLS, credentials, permissions."""
