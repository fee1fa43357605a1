"""Memory that is handed back between requests, never in the middle of one.

Pure Python and torch: nothing here needs gRPC, so all of it runs where only torch is installed.
"""
