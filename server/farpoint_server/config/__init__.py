"""What an operator may set: flags, environment variables and a file, as one frozen object."""
