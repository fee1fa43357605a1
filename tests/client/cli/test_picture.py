"""Pictures: a cloud next to its sample."""

import pytest
from tests.support.clouds import cloud_file

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")

# Of a picture, without title and caption.
HALVES = ((0, 60, 800, 590), (800, 60, 1600, 590))


def test_a_picture_with_an_output_or_alone(sample, tmp_path):
    source, picture = cloud_file("lamppost.pcd"), tmp_path / "a.png"
    result = sample(source, "-m", 50, "-o", tmp_path / "a.ply", "--picture", picture)
    assert result.exit_code == 0, result.output
    with Image.open(picture) as image:
        assert image.size == (1600, 640)
        shown = image.convert("RGB")
        assert shown.getpixel((0, 0)) == (11, 14, 20)
        assert all(len(shown.crop(half).getcolors(9999)) > 20 for half in HALVES)
    result = sample(source, "-m", 50, "--picture", tmp_path / "b.png")
    assert result.exit_code == 0, result.output
    assert "b.png: 50 of 1771 points" in result.stdout
    names = [source, cloud_file("simple.las")]
    assert sample(*names, "-m", 5, "--picture", tmp_path / "all").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == ["lamppost.png", "simple.png"]
    assert "must end in .png" in sample(source, "-m", 5, "--picture", tmp_path / "a.jpg").stderr
    assert "the output is missing" in sample(source, "-m", 5).stderr
