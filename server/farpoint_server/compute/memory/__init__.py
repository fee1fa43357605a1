"""Memory manager: returns cached memory of torch and malloc between requests.

Pure Python and torch: nothing here needs gRPC, so all of it runs where only torch is installed.
"""
