"""The environment of every test, and of the processes that it starts."""

import os

# Test files run side by side. Threads of OpenMP that spin while they wait for work, as they do
# unless told otherwise, take the cores of the other file: training took ten times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
