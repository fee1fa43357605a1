"""Servers in processes of their own, as they are and made to fail, and peers that misbehave."""
