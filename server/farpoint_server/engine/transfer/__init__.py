"""The way of a batch to a card and back: staged, uploaded, launched, downloaded."""
