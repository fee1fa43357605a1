"""The example that trains through the ops, in a version short enough for every run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_classifier.py"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_it_learns_through_ops_that_cannot() -> None:
    command = [sys.executable, str(SCRIPT), "--steps", "60", "--classes", "3"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", output)]
    assert losses[-1] < 0.5 * losses[0]
    reached = re.search(r"accuracy on 60 unseen shapes of 3 classes: ([\d.]+)%", output)
    assert reached is not None
    assert float(reached.group(1)) >= 75
    assert "requires_grad=False" in output
    assert "the same before and after training: True" in output
