"""What every test may use; `tests` itself is importable as a folder of helpers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
