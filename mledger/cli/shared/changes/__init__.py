"""What commands that change records share: plan, owner, undo file."""
