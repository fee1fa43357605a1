"""`python -m farpoint` is the command `farpoint`."""

from farpoint.cli import main

main()
