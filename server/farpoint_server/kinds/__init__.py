"""Kinds of work: what each costs, its arrays, its kernel and its answers, on any device."""
