"""Messages to arrays and back. What is wrong raises InvalidRequestError, which names the field."""
