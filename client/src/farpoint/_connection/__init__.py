"""Channels to servers: targets, credentials, metadata of a call, shared memory."""
