"""Inputs and their outputs, checked before anything is sent."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from farpoint.cli.sample.options import Options
from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io.files import check_target, naming
from farpoint.io.registry import INDICES_SUFFIX, check_writable, format_name, is_cloud_file

STDIN = "-"


@dataclass(frozen=True)
class Input:
    """A file to read.

    Attributes:
        location: a path or "-".
        relative: where its output goes within a folder.
    """

    location: str
    relative: PurePosixPath


@dataclass(frozen=True)
class Task:
    """One file to sample.

    Attributes:
        output: a path; None is no more than indices.
    """

    source: Input
    output: str | None

    @property
    def indices_path(self) -> str | None:
        """Path of the indices, next to the output, or to the input without one."""
        if self.output is None and self.source.location == STDIN:
            return None
        folder, slash, name = (self.output or self.source.location).rpartition("/")
        return f"{folder}{slash}{Path(name).stem}{INDICES_SUFFIX}"

    def outputs(self, options: Options) -> list[str]:
        """All output files."""
        files = [self.output, self.indices_path if options.indices else None]
        return [*filter(None, files)]


def plan_tasks(options: Options) -> list[Task]:
    """The files to read and to write."""
    _check(options)
    words, output = options.inputs, options.output
    inputs = _without_outputs(_expand(words, options.recursive), words, output)
    if len(inputs) == 1 and inputs[0].location != STDIN:
        with naming(Path(inputs[0].location)):
            Path(inputs[0].location).stat()  # a missing file needs no server to be named
    into_folder = len(inputs) > 1 or _is_folder(output) or inputs[0].location not in words
    if output is not None and not into_folder:
        tasks = [Task(inputs[0], output)]
    else:
        tasks = [_within(output, one, options) for one in inputs]
    _check_outputs(tasks, options)
    if into_folder:
        _make_folders(tasks)
    return tasks


def _check(options: Options) -> None:
    has_stdin = STDIN in options.inputs
    if has_stdin and len(options.inputs) > 1:
        raise InvalidArgumentError("standard input must be the only input", field="inputs")
    if has_stdin and options.read.format is None:
        raise InvalidArgumentError(
            "standard input has no suffix: name its format, as in --format .las", field="format"
        )
    if not (options.output or (options.indices and not has_stdin)):
        raise InvalidArgumentError(
            "the output is missing: give -o OUT, or --indices for files", field="output"
        )


def _expand(words: list[str], recursive: bool) -> list[Input]:
    """The distinct input files; those of a folder in order of name."""
    found = [one for word in words for one in _expand_one(word, recursive)]
    return list({one.location: one for one in found}.values()) if len(words) < len(found) else found


def _expand_one(word: str, recursive: bool) -> list[Input]:
    if word == STDIN:
        return [Input(STDIN, PurePosixPath("stdin"))]
    path = Path(word)
    if not word:  # which pathlib takes for the current folder
        raise InvalidArgumentError("IN must be a file, a folder or -, got ''", field="inputs")
    if path.is_dir() and not (path / "metadata.yaml").exists():  # no recording of ROS
        pattern = "**/*" if recursive else "*"
        inside = sorted(p for p in path.glob(pattern) if p.is_file() and is_cloud_file(p))
        if not inside:
            hint = "" if recursive else " (-r looks in its folders too)"
            raise CloudFileError(f"no cloud files in this folder{hint}", path=path)
        return [Input(str(p), PurePosixPath(p.relative_to(path).as_posix())) for p in inside]
    return [Input(word, PurePosixPath(path.name))]


def _without_outputs(inputs: list[Input], words: list[str], output: str | None) -> list[Input]:
    """Leaves out files that an earlier run wrote into a subfolder of the inputs."""
    if output is None or not _is_folder(output):
        return inputs
    folder = Path(output).resolve()
    return [
        one
        for one in inputs
        if one.location in words or folder not in Path(one.location).resolve().parents
    ]


def _is_folder(output: str | None) -> bool:
    return output is not None and (output.endswith("/") or Path(output).is_dir())


def _within(folder: str | None, source: Input, options: Options) -> Task:
    if folder is None:
        return Task(source, None)
    name = source.relative
    suffix = options.to or (options.read.format if name.suffix == "" else None)
    name = name.with_suffix(suffix) if suffix else name
    return Task(source, f"{folder.rstrip('/')}/{name}")


def check_format(task: Task, options: Options) -> None:
    """Raises CloudFileError if nothing writes the output of a task."""
    if task.output is None:
        return
    source, target = Path(task.source.location), Path(task.output)
    has_format = not source.is_dir() and bool(source.suffix or options.read.format)
    own = format_name(source, options.read.format, to_read=True) if has_format else None
    try:
        check_writable(target, same_format=own == format_name(target))
    except CloudFileError as error:
        is_named = options.to or options.output == task.output
        hint = "" if is_named else " (--to .ply writes another format)"
        raise CloudFileError(f"{error}{hint}") from error


def _check_outputs(tasks: list[Task], options: Options) -> None:
    inputs = {_resolved(task.source.location) for task in tasks}
    seen: set[str] = set()
    for task in tasks:
        for location in task.outputs(options):
            with naming(Path(location)):
                resolved = _resolved(location)
                if resolved in inputs:
                    raise ValueError("the output would replace an input")
                if resolved in seen:
                    raise ValueError("two inputs would be written here")
                check_target(Path(location))
            seen.add(resolved)


def _resolved(location: str) -> str:
    if location == STDIN:
        return location
    with naming(Path(location)):
        try:
            return str(Path(location).resolve())
        except RuntimeError as error:
            raise ValueError("a link to itself") from error


def _make_folders(tasks: list[Task]) -> None:
    for folder in sorted({Path(task.output).parent for task in tasks if task.output}):
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
