"""Messages to arrays and back. Invalid fields raise InvalidRequestError."""
