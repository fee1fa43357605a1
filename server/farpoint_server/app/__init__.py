"""The server process: its parts are made and joined here; it serves until a signal, then drains."""
