"""Commands and documents run as their readers do."""
