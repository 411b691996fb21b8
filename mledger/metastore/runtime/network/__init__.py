"""What servers listen on and answer over HTTP."""
