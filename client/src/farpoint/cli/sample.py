"""`farpoint sample`: samples cloud files, each into a file of its own or to JSON lines."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from farpoint._client import Client
from farpoint.errors import CloudFileError, FarpointError, InvalidArgumentError
from farpoint.io import INDICES_SUFFIX, check_suffix, read_cloud, write_subset
from farpoint.io.cloud import Cloud
from farpoint.io.jsonl import write_rows
from farpoint.results import Sample


@dataclass(frozen=True)
class Options:
    """How every file is sampled and reported."""

    samples: int
    start: int
    nonfinite: str
    indices: bool
    as_json: bool


@dataclass(frozen=True)
class FileTask:
    """One file to sample; no output means JSON lines on stdout."""

    input: Path
    output: Path | None

    @property
    def indices_path(self) -> Path | None:
        """Beside the output."""
        return self.output and self.output.with_suffix(INDICES_SUFFIX)


def plan_tasks(inputs: list[Path], output: str, options: Options) -> list[FileTask]:
    """What to read and to write, checked before anything is sent."""
    if output == "-":
        return [_task_to_stdout(inputs, options)]
    target = Path(output)
    if len(inputs) > 1 or output.endswith("/") or target.is_dir():
        tasks = [FileTask(path, target / path.name) for path in inputs]
        _make_folder(target)
    else:
        tasks = [FileTask(inputs[0], target)]
    _check_outputs(tasks)
    return tasks


def _task_to_stdout(inputs: list[Path], options: Options) -> FileTask:
    if len(inputs) > 1:
        raise InvalidArgumentError(f"-o - takes one input, got {len(inputs)}", field="output")
    if options.indices or options.as_json:
        raise InvalidArgumentError("-o - takes neither --indices nor --json", field="output")
    return FileTask(inputs[0], None)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CloudFileError(error.strerror or str(error), path=path) from error


def _check_outputs(tasks: list[FileTask]) -> None:
    inputs = {task.input.resolve() for task in tasks}
    seen: set[Path] = set()
    for path in (task.output for task in tasks if task.output):
        check_suffix(path)
        output = path.resolve()
        if output in inputs:
            raise CloudFileError("the output would replace an input", path=path)
        if output in seen:
            raise CloudFileError("two inputs would be written here", path=path)
        seen.add(output)


def run_tasks(client: Client, tasks: list[FileTask], options: Options) -> int:
    """Does every task and returns how many failed; the failure of a single one is raised."""
    if len(tasks) == 1:
        _run(client, tasks[0], options)
        return 0
    return sum(not _attempt(client, task, options) for task in _with_progress(tasks))


def _attempt(client: Client, task: FileTask, options: Options) -> bool:
    try:
        _run(client, task, options)
    except FarpointError as error:
        named = error if isinstance(error, CloudFileError) else f"{task.input}: {error}"
        print(f"farpoint: {named}", file=sys.stderr)
        return False
    return True


def _with_progress(tasks: list[FileTask]) -> Iterator[FileTask]:
    """A bar on stderr; stdout stays as it is where it is piped."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from tasks
        return
    with Progress(console=console, redirect_stdout=sys.stdout.isatty()) as bar:
        yield from bar.track(tasks, description="Sampling")


def _run(client: Client, task: FileTask, options: Options) -> None:
    cloud = read_cloud(task.input)
    sample: Sample = client.sample(
        cloud.points,
        options.samples,
        start=options.start,
        nonfinite="ignore" if options.nonfinite == "ignore" else "reject",
    )
    if task.output is None:
        write_rows(sys.stdout, cloud, sample.indices, distance=sample.distances)
        return
    write_subset(task.output, cloud, sample.indices)
    if options.indices and task.indices_path:
        write_subset(task.indices_path, cloud, sample.indices)
    # Not typer.echo, which writes past the bar's own stdout.
    print(_as_json(task, cloud, sample) if options.as_json else _as_text(task, cloud, sample))


def _as_json(task: FileTask, cloud: Cloud, sample: Sample) -> str:
    return json.dumps(
        {
            "input": str(task.input),
            "output": str(task.output),
            "points": len(cloud),
            "samples": len(sample),
            "covering_radius": sample.covering_radius,
            "origin": None if sample.origin is None else sample.origin.tolist(),
            "timings": asdict(sample.timings),
            "request_id": sample.request_id,
        }
    )


def _as_text(task: FileTask, cloud: Cloud, sample: Sample) -> str:
    t = sample.timings
    return (
        f"{task.input} -> {task.output}: {len(sample)} of {len(cloud)} points, "
        f"covering radius {sample.covering_radius:.4g}, {t.total_ms:.1f} ms "
        f"(queue {t.queue_ms:.1f}, compute {t.compute_ms:.1f}, wire {t.wire_ms:.1f})"
    )
