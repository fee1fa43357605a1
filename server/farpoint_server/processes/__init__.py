"""Several processes that are one server: the supervisor, and the link of each process to it.

Without torch: the supervisor is small, and lives on when a process dies.
"""
