"""What commands share: session, arguments, output, errors, and the frame of commands that change data."""
