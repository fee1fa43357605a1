"""The loaded models and their forward passes."""
