"""What waits, what is refused, and what runs next."""
