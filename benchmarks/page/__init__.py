"""How smoothly the page turns a cloud, and how long a cloud takes to be seen."""
