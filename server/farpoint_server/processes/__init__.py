"""Several server processes that are one server: the supervisor, and what ties each to the others.

Without torch: the supervisor is small, and lives on when a process dies.
"""
