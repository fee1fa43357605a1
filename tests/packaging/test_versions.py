"""`__version__` of the libraries."""

from importlib.metadata import version
from types import ModuleType

import pytest

import farpoint
import farpoint_ops


@pytest.mark.parametrize("package", [farpoint, farpoint_ops], ids=lambda package: package.__name__)
def test_the_version_is_that_of_the_installed_distribution(package: ModuleType) -> None:
    assert package.__version__ == version(package.__name__.replace("_", "-"))


@pytest.mark.parametrize("package", [farpoint, farpoint_ops], ids=lambda package: package.__name__)
def test_another_name_is_missing_as_ever(package: ModuleType) -> None:
    with pytest.raises(
        AttributeError, match=f"module '{package.__name__}' has no attribute 'nope'"
    ):
        _ = package.nope
