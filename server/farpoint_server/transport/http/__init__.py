"""The HTTP port: unary RPCs by the Connect protocol, and the files of the page."""
