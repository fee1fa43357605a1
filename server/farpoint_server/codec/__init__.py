"""Messages to arrays and back; whatever is wrong with a request is found here."""
