"""Many servers behind one client: their addresses, and small calls to more than one of them."""
