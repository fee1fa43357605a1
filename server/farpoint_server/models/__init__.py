"""Reads, tries, loads and unloads models."""
