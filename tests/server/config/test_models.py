"""Which models the settings ask for."""

import pytest

from farpoint_server.config.cli import parse


def test_the_default_model_is_loaded_unless_told_otherwise(monkeypatch):
    assert parse([]).encoder == ("default",)
    assert parse(["--encoder", "none"]).encoder == ()
    assert parse(["--encoder", "a=/x", "--encoder", "default"]).encoder == ("a=/x", "default")
    monkeypatch.setenv("FARPOINT_ENCODER", "default, b=/y")
    assert parse([]).encoder == ("default", "b=/y")


@pytest.mark.parametrize("wrong", ["/x", "a=", "=/x", ""])
def test_a_model_without_a_name_or_a_path_is_named(capsys, wrong):
    with pytest.raises(SystemExit):
        parse(["--encoder", wrong])
    assert f"expected NAME=PATH, default or none, got {wrong!r}" in capsys.readouterr().err
