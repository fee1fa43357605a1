"""The options of each command; their values become a namespace."""

import argparse
from typing import NoReturn

from farpoint._connection.targets import DEFAULT_TIMEOUT_S

METHODS = ("farthest-point", "voxel-grid", "random", "poisson-disk")
# The token itself is no flag: other users could read it in the list of processes.
_CONNECTION = {
    "--server TARGET": "HOST:PORT, dns:///HOST:PORT, unix:PATH or several HOST:PORT,HOST:PORT "
    "(FARPOINT_SERVER, else 127.0.0.1:50051).",
    "--ca FILE": "PEM file of trusted authorities; implies --tls (FARPOINT_CA).",
    "--certificate FILE": "PEM file of the client's certificate (FARPOINT_CERTIFICATE).",
    "--key FILE": "PEM file of its key (FARPOINT_KEY).",
    "--server-name NAME": "Name in the server's certificate, if it differs (FARPOINT_SERVER_NAME).",
    "--token-file FILE": "File with a bearer token (FARPOINT_TOKEN_FILE; FARPOINT_TOKEN holds the "
    "token itself).",
}


class Parser(argparse.ArgumentParser):
    """The parser of a command, whose errors are one line, like every failure."""

    def __init__(self, prog: str, description: str, positional: str = "") -> None:
        super().__init__(
            prog,
            usage=f"{prog} [options] {positional}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"farpoint: {message} (see {self.prog} --help)\n")


def add_connection(parser: Parser) -> None:
    """Options of the connection; those that are not given are not in the namespace."""
    group = parser.add_argument_group("server")
    absent = argparse.SUPPRESS
    group.add_argument("--tls", action="store_true", default=absent, help="Use TLS (FARPOINT_TLS).")
    for words, text in _CONNECTION.items():
        flag, _, metavar = words.partition(" ")
        group.add_argument(flag, metavar=metavar, default=absent, help=text)


def add_sample(parser: Parser) -> None:
    """Options of `farpoint sample`."""
    parser.add_argument("inputs", metavar="IN", nargs="+", help="Cloud files, folders, or -.")
    _add_points(parser.add_argument_group("points"))
    add = parser.add_argument_group("output").add_argument
    add("-o", "--output", metavar="OUT", help="Output file; a folder for several inputs.")
    add("--to", metavar="SUFFIX", help="Format of the outputs in a folder, such as .ply.")
    text = "Also write the row indices to OUT.indices.npy; without -o next to the input."
    add("--indices", action="store_true", help=text)
    add("--resume", action="store_true", help="Skip inputs whose outputs exist.")
    text = "Print JSON, one object per line, failures included."
    add("--json", dest="as_json", action="store_true", help=text)
    add("-q", "--quiet", action="store_true", help="Print failures only.")
    _add_reading(parser)
    add = parser.add_argument_group("work").add_argument
    add("-r", "--recursive", action="store_true", help="Include subfolders.")
    text = "Files at a time (one per core, up to 4)."
    add("-j", "--jobs", metavar="N", type=int, help=text)
    _add_timeout(parser, DEFAULT_TIMEOUT_S)


def _add_points(group: "argparse._ArgumentGroup") -> None:
    """Options for the choice of points."""
    add = group.add_argument
    text = "Samples per cloud: 1024 or 5%%; with --radius the maximum."
    add("-m", "--samples", metavar="M", help=text)
    text = "Sample until no point is farther than R from a sample."
    add("--radius", metavar="R", type=float, help=text)
    text = "Sampling method (farthest-point)."
    add("--method", choices=METHODS, default=METHODS[0], help=text)
    add("--voxel-size", metavar="S", type=float, help="Edge length of a voxel.")
    # A mean is not a row of the file.
    text = "Row that represents a voxel (first)."
    add("--select", choices=("first", "nearest-mean"), help=text)
    add("--seed", metavar="N", type=int, help="Seed of random rows (0).")
    add("--start", metavar="ROW", type=int, help="Row of the first sample (0).")
    text = "Rows with NaN or infinity: an error (reject) or never sampled (ignore)."
    add("--nonfinite", choices=("reject", "ignore"), default="reject", help=text)
    text = "Never sample rows that are exactly (0, 0, 0)."
    add("--skip-zero", action="store_true", help=text)
    text = "Write all points of a cloud that has fewer than M."
    add("--all-if-fewer", action="store_true", help=text)


def _add_reading(parser: Parser) -> None:
    """Options for reading files."""
    add = parser.add_argument_group("input").add_argument
    add("--format", metavar="SUFFIX", help="Format of the inputs, such as .laz.")
    text = "Columns of a .bin, a plain array or a text: x,y,z,i,ring."
    add("--columns", metavar="NAMES", help=text)
    add("--array", metavar="NAME", help="Array of an .npz with the points.")
    add("--topic", metavar="NAME", help="Topic of a recording.")
    text = "Index of the topic's message, from 0."
    add("--message", metavar="K", type=int, default=0, help=text)


def add_info(parser: Parser) -> None:
    """Options of `farpoint info`."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="Cloud file; none: the server.")
    add_common(parser)
    _add_reading(parser)


def add_health(parser: Parser) -> None:
    """Options of `farpoint health`."""
    text = "Full name of a service (all)."
    parser.add_argument("--service", metavar="NAME", default="", help=text)
    add_common(parser, timeout_s=5.0)


def add_load(parser: Parser) -> None:
    """Options of `farpoint load`."""
    parser.add_argument("name", metavar="NAME", help="Name of the model in later calls.")
    text = "File on the server's machine (the shipped encoder)."
    parser.add_argument("--path", metavar="FILE", help=text)
    add_common(parser, timeout_s=120.0)


def add_unload(parser: Parser) -> None:
    """Options of `farpoint unload`."""
    parser.add_argument("name", metavar="NAME", help="Name of the model.")
    _add_timeout(parser, 10.0)


def add_memory(parser: Parser) -> None:
    """Options of `farpoint memory`."""
    text = "First make the server return cached memory."
    parser.add_argument("--trim", action="store_true", help=text)
    add_common(parser)


def add_common(parser: Parser, timeout_s: float = 10.0) -> None:
    """Options of every command that prints what a server answers."""
    _add_timeout(parser, timeout_s)
    text = "Print JSON, one object per line."
    parser.add_argument("--json", dest="as_json", action="store_true", help=text)


def _add_timeout(parser: Parser, default_s: float) -> None:
    text = f"Timeout of one request in seconds ({default_s:g})."
    parser.add_argument("--timeout", metavar="S", type=float, default=default_s, help=text)
