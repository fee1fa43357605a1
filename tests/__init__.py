"""Tests, laid out as the packages are; `tests.support` has what several of them share."""
