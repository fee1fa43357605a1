"""`farpoint sample`: samples rows of cloud files."""
