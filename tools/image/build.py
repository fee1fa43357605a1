"""Builds an image of the Dockerfile with docker, podman or buildah.

Each base is pinned to the digest that its name has now, or had when it was pulled; the digest is a
label of the image. A name with a digest (ubuntu:24.04@sha256:...) is used unchanged.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("docker", "podman", "buildah")
# The base that is compiled on; the image itself stands on BASE.
BUILD_BASES = {"cpu": (), "cuda": ("CUDA_BASE",)}


def capture(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@dataclass(frozen=True)
class Engine:
    """One of ENGINES, whose commands for the same thing differ."""

    name: str

    def digest(self, image: str) -> str:
        """sha256:... of an image, which is pulled unless it is here."""
        kind, digest = "image", "{{index .RepoDigests 0}}"
        if self.name == "buildah":
            kind, digest = "--type=image", "{{.FromImageDigest}}"
        inspect = [self.name, *(["inspect", kind] if self.name == "buildah" else [kind, "inspect"])]
        if subprocess.run([*inspect, image], capture_output=True).returncode != 0:
            subprocess.run([self.name, "pull", image], check=True)
        return capture(*inspect, "--format", digest, image).rpartition("@")[2]

    def build(self, *arguments: str) -> None:
        # OCI's own format has no place for the health check.
        docker_format = [] if self.name == "docker" else ["--format", "docker"]
        subprocess.run([self.name, "build", *docker_format, *arguments, str(ROOT)], check=True)


def find_engine() -> Engine:
    """IMAGE_ENGINE, or the first that works: a docker without its daemon does not."""
    wanted = os.environ.get("IMAGE_ENGINE")
    for name in (wanted,) if wanted else ENGINES:
        found = shutil.which(name)
        if found and subprocess.run([found, "info"], capture_output=True).returncode == 0:
            return Engine(name)
    sys.exit(f"image: none of {', '.join((wanted,) if wanted else ENGINES)} is here and works")


def read_bases(target: str, given: dict[str, str]) -> dict[str, str]:
    """The names of a target's bases by their build arguments: as given, or the Dockerfile's."""
    defaults = dict(re.findall(r"^ARG (\w*BASE)=(\S+)", (ROOT / "Dockerfile").read_text(), re.M))
    return {name: given.get(name, defaults[name]) for name in ("BASE", *BUILD_BASES[target])}


def pin(engine: Engine, name: str) -> str:
    """NAME@DIGEST; a tag before a digest is left out, which not every engine accepts."""
    digest = name.partition("@")[2] or engine.digest(name)
    return f"{re.sub(r'(:[^:/]*)?(@.*)?$', '', name)}@{digest}"


def git(*arguments: str) -> str:
    return capture("git", "-C", str(ROOT), *arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=BUILD_BASES)
    parser.add_argument("--name", default="farpoint-server", help="the image, without a tag")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    options, more = parser.parse_known_args()  # the rest is for the engine, such as --no-cache
    engine = find_engine()
    given = dict(argument.split("=", 1) for argument in options.build_arg)
    bases = read_bases(options.target, given)
    pinned = {argument: pin(engine, name) for argument, name in bases.items()}
    version = capture(sys.executable, "-m", "setuptools_scm", "--root", str(ROOT))
    labels = {
        "version": version,
        "revision": git("rev-parse", "HEAD") + ("-dirty" * bool(git("status", "--porcelain"))),
        "created": git("show", "-s", "--format=%cI"),
        "base.name": bases["BASE"].partition("@")[0],
        "base.digest": pinned["BASE"].partition("@")[2],
    }
    suffixes = (options.target, f"{version.replace('+', '_')}-{options.target}")
    tags = [f"{options.name}:{suffix}" for suffix in suffixes]
    build_arguments = given | pinned | {"VERSION": version}
    arguments = [f"--build-arg={name}={value}" for name, value in build_arguments.items()]
    arguments += [f"--label=org.opencontainers.image.{k}={v}" for k, v in labels.items()]
    arguments += [f"--tag={tag}" for tag in tags]
    engine.build(f"--target={options.target}", *arguments, *more)
    for argument, name in pinned.items():
        print(f"image: {argument}={name}")
    print(f"image: {' and '.join(tags)}, by {engine.name}")


if __name__ == "__main__":
    main()
