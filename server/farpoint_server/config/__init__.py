"""Settings: flags, environment variables and a file, as one frozen object."""
