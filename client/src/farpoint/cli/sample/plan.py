"""Which file becomes which, checked before anything is sent."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from farpoint.cli.sample.inputs import STDIN, Input, check_stdin, expand
from farpoint.cli.sample.options import Options
from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io import INDICES_SUFFIX, check_writable
from farpoint.io.failures import naming
from farpoint.io.registry import format_of


@dataclass(frozen=True)
class Task:
    """One file to sample.

    Attributes:
        output: a path or URL; None is JSON lines on stdout, or no more than indices or a picture.
        to_stdout: whether the rows go there.
        picture: where to draw.
        problem: why it cannot be done; the other tasks are.
        label: what the files beside the output are called; None is the output's name.
    """

    source: Input
    output: str | None
    to_stdout: bool = False
    picture: Path | None = None
    problem: str | None = None
    label: str | None = None

    @property
    def indices_path(self) -> str | None:
        """Beside the output; beside the input where there is none."""
        if self.output is None and self.source.location == STDIN:
            return None
        folder, slash, name = (self.output or self.source.location).rpartition("/")
        return f"{folder}{slash}{self.label or Path(name).stem}{INDICES_SUFFIX}"

    def outputs(self, options: Options) -> list[str]:
        """All files that it makes."""
        files = [self.output, self.indices_path if options.indices else None]
        return [*filter(None, files), *([str(self.picture)] if self.picture else [])]


def plan_tasks(words: list[str], output: str | None, options: Options) -> list[Task]:
    """What to read and to write.

    Raises:
        CloudFileError: an output would replace an input or another output, or cannot be made.
        InvalidArgumentError: options that do not go together.
    """
    check_stdin(words, options.read.format)
    inputs = _without_outputs(expand(words, options.recursive), words, output)
    beside = options.indices and STDIN not in words
    if output is None and options.picture is None and not beside:
        raise InvalidArgumentError(
            "say where to: -o OUT, --picture OUT.png or both; --indices alone writes beside files",
            field="output",
        )
    if output == "-":
        return [_task_to_stdout(inputs, options)]
    into_folder = len(inputs) > 1 or _is_folder(output) or inputs[0].location not in words
    if output is None:
        tasks = [Task(one, None, label=label) for one, label in _labels(inputs)]
    elif into_folder:
        tasks = [_within(output, one, label, options) for one, label in _labels(inputs)]
    else:
        tasks = [Task(inputs[0], output)]
    tasks = [_with_picture(task, options.picture, len(tasks) > 1) for task in tasks]
    tasks = [_with_format_checked(task, options) for task in tasks]
    if len(tasks) == 1 and tasks[0].problem:
        raise CloudFileError(tasks[0].problem)
    _check_outputs(tasks, options)
    if into_folder:
        _make_folders(tasks)
    return tasks


def _without_outputs(inputs: list[Input], words: list[str], output: str | None) -> list[Input]:
    """Leaves out what an earlier run wrote into a folder within that of the inputs."""
    if output is None or not _is_folder(output) or "://" in output:
        return inputs
    folder = Path(output).resolve()
    return [
        one
        for one in inputs
        if one.location in words or folder not in Path(one.location).resolve().parents
    ]


def _is_folder(output: str | None) -> bool:
    return output is not None and (output.endswith("/") or Path(output).is_dir())


def _task_to_stdout(inputs: list[Input], options: Options) -> Task:
    if len(inputs) > 1:
        raise InvalidArgumentError(f"-o - takes one input, got {len(inputs)}", field="output")
    if options.indices or options.as_json:
        raise InvalidArgumentError("-o - takes neither --indices nor --json", field="output")
    return Task(inputs[0], None, to_stdout=True, picture=options.picture)


def _labels(inputs: list[Input]) -> list[tuple[Input, str]]:
    """Names without suffix; with it for scan.las beside scan.ply."""
    stems = Counter(one.relative.with_suffix("") for one in set(inputs))
    return [
        (one, one.relative.stem if stems[one.relative.with_suffix("")] == 1 else one.relative.name)
        for one in inputs
    ]


def _within(folder: str, source: Input, label: str, options: Options) -> Task:
    name = source.relative
    suffix = options.to or (options.read.format if name.suffix == "" else None)
    name = name.with_name(label + suffix) if suffix else name
    return Task(source, f"{folder.rstrip('/')}/{name}", label=label)


def _with_picture(task: Task, picture: Path | None, several: bool) -> Task:
    if picture is None:
        return task
    if several:
        picture = picture / task.source.relative.with_name(f"{task.label}.png")
    elif picture.suffix.lower() != ".png":
        raise CloudFileError("a picture must end in .png", path=picture)
    return replace(task, picture=picture)


def _check_outputs(tasks: list[Task], options: Options) -> None:
    inputs = {_resolved(task.source.location) for task in tasks}
    seen: set[str] = set()
    for task in tasks:
        for location in task.outputs(options):
            resolved = _resolved(location)
            if resolved in inputs:
                raise CloudFileError("the output would replace an input", path=location)
            if resolved in seen:
                raise CloudFileError("two inputs would be written here", path=location)
            seen.add(resolved)


def _with_format_checked(task: Task, options: Options) -> Task:
    """Notes where the output's format is known not to hold this input."""
    if task.output is None:
        return task
    try:
        check_writable(Path(task.output), same_format=_keeps_format(task, options))
    except CloudFileError as error:
        hint = "" if options.to or "COPC" in str(error) else " (--to .ply writes another format)"
        return replace(task, problem=f"{error}{hint}")
    return task


def _keeps_format(task: Task, options: Options) -> bool:
    source = Path(task.source.location)
    if source.is_dir() or not (source.suffix or options.read.format):
        return False
    return format_of(Path(task.output or "")) == format_of(source, options.read.format)


def _resolved(location: str) -> str:
    return location if "://" in location or location == "-" else str(Path(location).resolve())


def _make_folders(tasks: list[Task]) -> None:
    local = [task.output for task in tasks if task.output and "://" not in task.output]
    pictures = [str(task.picture) for task in tasks if task.picture]
    for folder in sorted({Path(path).parent for path in (*local, *pictures)}):
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
