"""The RPCs of the contract, one class each: how its request is made and its response is read."""
