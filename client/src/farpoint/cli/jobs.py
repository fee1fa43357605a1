"""`farpoint sample`: which file becomes which, and doing it."""

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
class Job:
    """One file to sample; no output means JSON lines on stdout."""

    input: Path
    output: Path | None

    @property
    def indices_path(self) -> Path | None:
        """Beside the output."""
        return self.output and self.output.with_suffix(INDICES_SUFFIX)


def plan_jobs(inputs: list[Path], output: str, options: Options) -> list[Job]:
    """What to read and to write, checked before anything is sent."""
    if output == "-":
        return [_job_to_stdout(inputs, options)]
    target = Path(output)
    if len(inputs) > 1 or output.endswith("/") or target.is_dir():
        jobs = [Job(path, target / path.name) for path in inputs]
        _make_folder(target)
    else:
        jobs = [Job(inputs[0], target)]
    _check_outputs(jobs)
    return jobs


def _job_to_stdout(inputs: list[Path], options: Options) -> Job:
    if len(inputs) > 1:
        raise InvalidArgumentError(f"-o - takes one input, got {len(inputs)}", field="output")
    if options.indices or options.as_json:
        raise InvalidArgumentError("-o - takes neither --indices nor --json", field="output")
    return Job(inputs[0], None)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CloudFileError(error.strerror or str(error), path=path) from error


def _check_outputs(jobs: list[Job]) -> None:
    inputs = {job.input.resolve() for job in jobs}
    seen: set[Path] = set()
    for path in (job.output for job in jobs if job.output):
        check_suffix(path)
        output = path.resolve()
        if output in inputs:
            raise CloudFileError("the output would replace an input", path=path)
        if output in seen:
            raise CloudFileError("two inputs would be written here", path=path)
        seen.add(output)


def run_jobs(client: Client, jobs: list[Job], options: Options) -> int:
    """Does every job and returns how many failed; the failure of a single one is raised."""
    if len(jobs) == 1:
        _run(client, jobs[0], options)
        return 0
    return sum(not _attempt(client, job, options) for job in _with_progress(jobs))


def _attempt(client: Client, job: Job, options: Options) -> bool:
    try:
        _run(client, job, options)
    except FarpointError as error:
        named = error if isinstance(error, CloudFileError) else f"{job.input}: {error}"
        print(f"farpoint: {named}", file=sys.stderr)
        return False
    return True


def _with_progress(jobs: list[Job]) -> Iterator[Job]:
    """A bar on stderr; stdout stays as it is where it is piped."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from jobs
        return
    with Progress(console=console, redirect_stdout=sys.stdout.isatty()) as bar:
        yield from bar.track(jobs, description="Sampling")


def _run(client: Client, job: Job, options: Options) -> None:
    cloud = read_cloud(job.input)
    sample: Sample = client.sample(
        cloud.points,
        options.samples,
        start=options.start,
        nonfinite="ignore" if options.nonfinite == "ignore" else "reject",
    )
    if job.output is None:
        write_rows(sys.stdout, cloud, sample.indices, distance=sample.distances)
        return
    write_subset(job.output, cloud, sample.indices)
    if options.indices and job.indices_path:
        write_subset(job.indices_path, cloud, sample.indices)
    # Not typer.echo, which writes past the bar's own stdout.
    print(_as_json(job, cloud, sample) if options.as_json else _as_text(job, cloud, sample))


def _as_json(job: Job, cloud: Cloud, sample: Sample) -> str:
    return json.dumps(
        {
            "input": str(job.input),
            "output": str(job.output),
            "points": len(cloud),
            "samples": len(sample),
            "covering_radius": sample.covering_radius,
            "origin": None if sample.origin is None else sample.origin.tolist(),
            "timings": asdict(sample.timings),
            "request_id": sample.request_id,
        }
    )


def _as_text(job: Job, cloud: Cloud, sample: Sample) -> str:
    t = sample.timings
    return (
        f"{job.input} -> {job.output}: {len(sample)} of {len(cloud)} points, "
        f"covering radius {sample.covering_radius:.4g}, {t.total_ms:.1f} ms "
        f"(queue {t.queue_ms:.1f}, compute {t.compute_ms:.1f}, wire {t.wire_ms:.1f})"
    )
