"""How many inputs the fuzz tests of the parsers try: few by default, more by the environment."""

import os

INPUTS = int(os.environ.get("FARPOINT_FUZZ", "2000"))
