"""`farpoint sample`: cloud files in, chosen rows of them out."""
