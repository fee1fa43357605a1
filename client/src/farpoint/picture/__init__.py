"""Pictures of a cloud beside its sample, with matplotlib, of the optional extra `picture`."""

from farpoint.picture.draw import before_after

__all__ = ["before_after"]
