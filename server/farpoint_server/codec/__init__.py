"""Between messages and arrays: everything a request can get wrong is found here."""
