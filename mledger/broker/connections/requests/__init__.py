"""What each command of a client does, from the handshake on."""
