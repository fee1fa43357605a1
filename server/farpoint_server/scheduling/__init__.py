"""Admission, queues and lanes of work, and the choice of a device."""
