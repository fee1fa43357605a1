"""What tests share: clouds, servers in processes of their own, and fakes of devices."""
