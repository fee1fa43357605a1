"""The server process: builds its components, serves until a signal, then drains."""
