"""What an export proves, and what it refuses: each kind of fault by a small module."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farpoint_models.programs import (
    Batching,
    Manifest,
    ProgramError,
    Role,
    TensorSpec,
    load_program,
)
from farpoint_models.programs.export import export_program
from farpoint_models.programs.program import Program, as_flat, faster
from farpoint_ops import farthest_point_sample, gather_points, knn

CPU = torch.device("cpu")
XYZ = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
LENGTHS = TensorSpec("lengths", Role.LENGTHS, "int64", ("B",))
OUT = TensorSpec("out", Role.PER_POINT, "float32", ("B", "N", 3))
POSE = TensorSpec("pose", Role.PER_CLOUD, "float32", ("B", 3, 3))
EQUAL = Manifest(Batching.EQUAL, (XYZ,), (OUT,))
RAGGED = Manifest(
    Batching.RAGGED,
    (replace(XYZ, shape=("P", 3)), TensorSpec("ends", Role.OFFSETS, "int64", ("B",))),
    (replace(OUT, shape=("P", 3)),),
)
ALONE = replace(EQUAL, batching=Batching.ALONE, limits={"N": (4, None)})


class Of(nn.Module):
    """A module of one function of its input and a state."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function, self.norm = function, nn.BatchNorm1d(3)
        self.plain = nn.BatchNorm1d(3, track_running_stats=False)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, xyz: Tensor) -> Tensor:
        return self.function(self, xyz)


def remembers(self: Of, xyz: Tensor) -> Tensor:
    self.seen += xyz.mean((0, 1))
    return xyz + self.seen


def remembers_through_a_view(self: Of, xyz: Tensor) -> Tensor:
    self.seen.view(3, 1)[1].add_(xyz.amax())
    return xyz - self.seen


def trains(self: Of, xyz: Tensor) -> Tensor:
    self.norm.train()
    return self.norm(xyz.mT).mT


CHANGING: dict[str, tuple[Callable[..., Tensor], str]] = {
    "one deviation over the batch": (lambda _, x: x / x.std(), "answer to a cloud of .* differs"),
    "a batch norm that trains": (trains, "a batch norm in training mode"),
    "a norm without statistics": (lambda self, x: self.plain(x.mT).mT, "in training mode"),
    "dropout by its default": (
        lambda _, x: nn.functional.dropout(x),
        "dropout.* is random, with training=",
    ),
    "random numbers": (lambda _, x: x + torch.rand_like(x), "rand_like.* is random"),
    "a buffer": (remembers, "forward changes the buffer seen"),
    "a view of a buffer": (remembers_through_a_view, "forward changes the buffer seen"),
}


@pytest.mark.parametrize("kind", CHANGING)
def test_what_lets_callers_change_each_others_answers_is_refused(tmp_path, kind):
    function, reason = CHANGING[kind]
    with pytest.raises(ProgramError, match=reason):
        export_program(Of(function), EQUAL, tmp_path / "a.pt2")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("kind", ["one deviation over the batch", "random numbers", "a buffer"])
def test_the_same_runs_one_request_at_a_time_where_the_author_says_so(tmp_path, kind):
    """Each call begins with the buffers of the export."""
    function, _ = CHANGING[kind]
    path = tmp_path / "a.pt2"
    run = export_program(Of(function), ALONE, path).on(CPU)
    x = torch.rand(1, 9, 3)
    torch.manual_seed(0)
    (first,) = run([x])
    run([x + 5])
    torch.manual_seed(0)
    (again,) = run([x])
    assert torch.equal(first, again)
    path.with_name("a.pt2.json").write_text(EQUAL.to_json())
    with pytest.raises(ProgramError):  # an archive whose author says otherwise
        load_program(path).check(CPU)


def test_rows_that_follow_the_longest_cloud_of_a_call_are_refused(tmp_path):
    class Halves(nn.Module):
        def forward(self, xyz: Tensor, lengths: Tensor) -> Tensor:
            del lengths
            return farthest_point_sample(xyz, (xyz.size(1) + 1) // 2)

    rows = TensorSpec("rows", Role.PER_SAMPLE, "int32", ("B", "M"))
    manifest = Manifest(Batching.PADDED, (XYZ, LENGTHS), (rows,))
    with pytest.raises(ProgramError, match=r"output rows: .* has the shape \[\d+\], and \[\d+\]"):
        export_program(Halves(), manifest, tmp_path / "a.pt2")


def test_ragged_clouds_that_see_each_other_are_refused(tmp_path):
    class Centered(nn.Module):
        def forward(self, xyz: Tensor, ends: Tensor) -> Tensor:
            return xyz - xyz.mean(0) + 0 * ends[0]

    with pytest.raises(ProgramError, match="output out: with other clouds in its call"):
        export_program(Centered(), RAGGED, tmp_path / "a.pt2")


def test_a_refused_export_leaves_the_archive_that_is_there(tmp_path):
    path = tmp_path / "a.pt2"
    export_program(Of(lambda _, x: 2 * x), EQUAL, path)
    good = path.read_bytes()
    with pytest.raises(ProgramError):
        export_program(Of(lambda _, x: x / x.std()), EQUAL, path)
    assert path.read_bytes() == good
    assert [*tmp_path.iterdir()] == [path]


SIZES: dict[str, tuple[Callable[..., Tensor], Manifest, str]] = {
    "fewer neighbors than a constant": (
        lambda _, x: knn(x, x, min(16, x.size(1)))[1],
        replace(EQUAL, outputs=(replace(OUT, shape=("B", "N", 16)),)),
        r"clouds of 1 points failed: output out: the manifest says .*16.* gave .*\[1, 1, 1\]",
    ),
    "a batch of one that is squeezed": (
        lambda _, x: x.amax(1).squeeze(),
        replace(EQUAL, outputs=(TensorSpec("out", Role.PER_CLOUD, "float32", ("B", 3)),)),
        r"clouds of 1 points failed: output out: .*gave float32 \[3\]",
    ),
    "more samples than the least points": (
        lambda _, x: gather_points(x.mT, farthest_point_sample(x, 16)).mT,
        replace(
            EQUAL,
            outputs=(TensorSpec("out", Role.PER_SAMPLE, "float32", ("B", "M", 3)),),
            limits={"N": (8, None)},
        ),
        "clouds of 8 points failed: .*16",
    ),
    "a table of positions that ends": (
        lambda _, x: x + torch.zeros(1000, 3)[torch.arange(x.size(1))],
        replace(EQUAL, limits={"N": (4, 3000)}),
        "clouds of 3000 points failed: index \\d+ is out of bounds",
    ),
}


@pytest.mark.parametrize("kind", SIZES)
def test_a_size_of_the_limits_that_fails_is_an_error_of_the_export(tmp_path, kind):
    function, manifest, reason = SIZES[kind]
    with pytest.raises(ProgramError, match=reason):
        export_program(Of(function), manifest, tmp_path / "a.pt2")


class Posed(nn.Module):
    """Takes only rotations, which no random numbers are."""

    def forward(self, xyz: Tensor, pose: Tensor, level: Tensor) -> Tensor:
        turned = xyz @ torch.linalg.cholesky(pose).mT
        return turned + torch.eye(3)[level - 1][:, None]


def test_examples_of_the_author_are_what_a_program_is_tried_on(tmp_path):
    level = TensorSpec("level", Role.PER_CLOUD, "int64", ("B",))
    manifest = Manifest(Batching.EQUAL, (XYZ, POSE, level), (OUT,))
    with pytest.raises(ProgramError, match="clouds of 1 points failed"):
        export_program(Posed(), manifest, tmp_path / "a.pt2")
    examples = (
        {"pose": np.eye(3), "level": 3, "xyz": np.random.default_rng(0).random((500, 3))},
        {"pose": 2 * torch.eye(3), "level": 1},
    )
    given = replace(manifest, examples=examples)
    found = export_program(Posed(), given, tmp_path / "a.pt2").manifest
    assert [example.keys() for example in found.examples] == [e.keys() for e in examples]
    load_program(tmp_path / "a.pt2").check(CPU)


@pytest.mark.parametrize(
    ("examples", "reason"),
    [
        ({"pose": np.eye(2)}, r"pose: expected the shape \[3, 3\], got \[2, 2\]"),
        ({"color": 1}, "examples: expected xyz, pose, got 'color'"),
        ({"xyz": np.zeros((0, 3))}, r"xyz: expected the shape \['rows', 3\], got \[0"),
        ({"pose": "abc"}, r"pose: expected the shape \[3, 3\], got other values"),
    ],
)
def test_examples_that_the_model_does_not_take_are_refused(examples, reason):
    with pytest.raises(ProgramError, match=f"^manifest: examples: {reason}|^manifest: {reason}"):
        Manifest(Batching.EQUAL, (XYZ, POSE), (OUT,), examples=(examples,))


class InPlace(nn.Module):
    def forward(self, xyz: Tensor) -> Tensor:
        xyz -= xyz.mean(1, keepdim=True)
        return xyz.mul_(2)


def halved(dtype: torch.dtype) -> nn.Module:
    layers = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 3))
    norm = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 3, 1))
    inner = nn.ModuleList([layers, norm]).to(dtype).eval()
    return Of(lambda _, x: (inner[0](x.to(dtype)) + inner[1](x.to(dtype).mT).mT).float())


GOOD: dict[str, nn.Module] = {
    "logits that are not finite": Of(
        lambda _, x: x.masked_fill(x > 0.5, -torch.inf).masked_fill(x < 0.2, torch.nan)
    ),
    "float16": halved(torch.float16),
    "bfloat16": halved(torch.bfloat16),
    "an input that is changed": InPlace(),
}


@pytest.mark.parametrize("kind", GOOD)
def test_good_modules_are_exported_and_answer_as_they_do(tmp_path, kind):
    program = export_program(GOOD[kind], EQUAL, tmp_path / "a.pt2")
    x = torch.rand(3, 40, 3)
    given = x.clone()
    (found,) = program.on(CPU)([x])
    assert torch.equal(x, given)
    with torch.no_grad():
        wanted = GOOD[kind](given)
    tolerance = program.tolerance
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_norms_before_a_choice_of_neighbors_stay_as_they_are(tmp_path):
    """Folded, their last bits would choose others."""

    class Chooses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU())
            self.last = nn.Sequential(nn.Conv1d(8, 3, 1), nn.BatchNorm1d(3))

        def forward(self, xyz: Tensor) -> Tensor:
            found = self.first(xyz.mT)
            near = torch.cdist(found.mT, found.mT).topk(1)[1]
            return self.last(found.gather(2, near.mT.expand(-1, 8, -1))).mT

    exported = export_program(Chooses(), EQUAL, tmp_path / "a.pt2").exported
    seen = []
    as_flat(exported, lambda module: seen.append(module) or faster(module))
    norms = [n for n in seen[0].graph.nodes if n.target is torch.ops.aten.batch_norm.default]
    assert len(norms) == 1


def test_folding_that_changes_an_answer_is_taken_back(tmp_path):
    class Steep(nn.Module):
        """The norm takes away a shift that is far larger than what is left."""

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = nn.Conv1d(3, 3, 1, bias=False), nn.BatchNorm1d(3, eps=1e-12)
            nn.init.eye_(self.layer.weight[..., 0])
            self.norm.running_var.fill_(1e-10)
            self.norm.running_mean.fill_(0.5)

        def forward(self, xyz: Tensor) -> Tensor:
            return self.norm(self.layer(xyz.mT)).mT

    module = Steep()
    program = export_program(module, EQUAL, tmp_path / "a.pt2")
    x = 0.5 + torch.rand(2, 50, 3) * 1e-5
    with torch.no_grad():
        torch.testing.assert_close(program.on(CPU)([x])[0], module(x))


class TakesADict(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return batch["xyz"] + batch["pose"].sum()


class TakesKeywords(nn.Module):
    def forward(self, xyz: Tensor, *, pose: Tensor) -> Tensor:
        return xyz @ pose


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (TakesADict(), r"^forward: expected to take xyz, pose .* forward\(self, xyz, pose\)"),
        (TakesKeywords(), r"^forward: expected to take xyz, pose .* forward\(self, xyz, pose\)"),
        (
            torch.compile(nn.Linear(3, 3), backend="eager"),
            "^forward is wrapped by torch.compile: .*_orig_mod",
        ),
    ],
)
def test_a_forward_that_does_not_take_the_tensors_is_refused_with_what_to_write(
    tmp_path, module, reason
):
    manifest = Manifest(Batching.EQUAL, (XYZ, POSE), (OUT,))
    with pytest.raises(ProgramError, match=reason):
        export_program(module, manifest, tmp_path / "a.pt2")


def branches(_: Of, xyz: Tensor) -> Tensor:
    found: Tensor = torch.cond(xyz.amax() < 8, lambda x: 2 * x, lambda x: x + 1, (xyz,))
    return found


# Whether the time depends on sizes alone, and whether a graph of CUDA can repeat it as well.
WAITS: dict[str, tuple[Callable[..., Tensor], bool, bool]] = {
    "products": (lambda _, x: x @ x.mT @ x, True, True),
    "neighbors": (lambda _, x: gather_points(x.mT, knn(x, x, 1)[0][:, :, 0]).mT, True, True),
    "random numbers": (lambda _, x: x + torch.rand_like(x), True, False),
    "a buffer": (remembers, True, False),
    "a number for the host": (lambda _, x: x * x.sum().item(), False, False),
    "a size that the data say": (lambda _, x: x + x[x > 0.5].sum(), False, False),
    "a branch": (branches, False, False),
}


@pytest.mark.parametrize("kind", WAITS)
def test_a_program_knows_what_the_host_waits_for(kind):
    function, is_steady, is_capturable = WAITS[kind]
    program = Program(EQUAL, torch.export.export(Of(function), (torch.rand(2, 9, 3),)))
    assert (program.is_steady, program.is_capturable) == (is_steady, is_capturable)
