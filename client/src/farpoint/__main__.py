"""`python -m farpoint` is the command `farpoint`."""

from farpoint.cli import main

if __name__ == "__main__":  # and not where a child process imports it
    main()
