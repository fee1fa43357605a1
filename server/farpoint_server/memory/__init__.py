"""Memory manager: gives cached memory of torch and malloc back between requests.

Pure Python and torch: nothing here needs gRPC, so all of it runs where only torch is installed.
"""
