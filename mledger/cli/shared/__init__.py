"""What commands share: the context, arguments, output, errors, and the frame of commands that change data."""
