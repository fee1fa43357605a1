"""Support of the tests: clouds, servers in processes of their own, and fakes of devices."""
