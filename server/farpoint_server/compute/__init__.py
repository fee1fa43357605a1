"""Engines, their queues, costs and memory; `compute.Compute` is all that services use.

Empty, so that `compute.memory` loads where only torch is installed.
"""
