"""SPDX of an image: its Python and Debian packages, and what is bundled into the page."""

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from license_expression import ExpressionError, get_spdx_licensing
from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    Package,
    PackagePurpose,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)
from spdx_tools.spdx.writer.write_anything import write_file

LICENSING = get_spdx_licensing()
IMAGE, BASE = "SPDXRef-image", "SPDXRef-base"


@dataclass(frozen=True)
class Contents:
    """What an image says of itself, and what it was made of."""

    name: str
    image_id: str
    created: str
    base: str  # NAME@DIGEST
    python: Sequence[tuple[str, str, str | None, str | None]]  # name, version, license, home page
    debian: Sequence[tuple[str, str, str]]  # name, version, architecture
    distribution: str
    release: str


def write_sbom(contents: Contents, page_lock: Path, path: Path) -> int:
    """Writes the document, which is validated, and returns how many packages the image holds."""
    held = sorted(_packages(contents, page_lock), key=lambda package: package.spdx_id)
    image = _package("image", contents.name, contents.image_id, _oci(contents.name))
    image.spdx_id, image.primary_package_purpose = IMAGE, PackagePurpose.CONTAINER
    base_name, _, base_digest = contents.base.partition("@")
    base = _package("base", base_name, base_digest, _oci(contents.base))
    base.spdx_id, base.primary_package_purpose = BASE, PackagePurpose.CONTAINER
    creation = CreationInfo(
        "SPDX-2.3",
        "SPDXRef-DOCUMENT",
        contents.name,
        uuid.uuid5(uuid.NAMESPACE_OID, contents.image_id).urn,
        [Actor(ActorType.TOOL, "farpoint-image")],
        datetime.fromisoformat(contents.created).astimezone(timezone.utc).replace(tzinfo=None),
    )
    relationships = [
        Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, IMAGE),
        Relationship(IMAGE, RelationshipType.DESCENDANT_OF, BASE),
        *(Relationship(IMAGE, RelationshipType.CONTAINS, package.spdx_id) for package in held),
    ]
    document = Document(creation, [image, base, *held], relationships=relationships)
    write_file(document, str(path))
    return len(held)


def _packages(contents: Contents, page_lock: Path) -> Iterator[Package]:
    for name, version, license_text, home in contents.python:
        normal = re.sub(r"[-_.]+", "-", name).lower()
        package = _package("python", name, version, f"pkg:pypi/{normal}@{version}", license_text)
        package.homepage = home if home and home.startswith("http") else None
        yield package
    for name, version, architecture in contents.debian:
        distro = f"{contents.distribution}-{contents.release}"
        purl = (
            f"pkg:deb/{contents.distribution}/{name}@{version}?arch={architecture}&distro={distro}"
        )
        yield _package("debian", name, version, purl.replace("+", "%2B"))
    for place, found in json.loads(page_lock.read_text())["packages"].items():
        if place and not found.get("dev"):
            name = place.removeprefix("node_modules/")
            purl = f"pkg:npm/{name.replace('@', '%40')}@{found['version']}"
            yield _package("npm", name, found["version"], purl, found.get("license"))


def _package(
    kind: str, name: str, version: str, purl: str, license_text: str | None = None
) -> Package:
    declared: Any = SpdxNoAssertion()
    with contextlib.suppress(ExpressionError):  # older metadata has prose
        if license_text:
            declared = LICENSING.parse(license_text, validate=True)
    return Package(
        f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}",
        name,
        SpdxNoAssertion(),
        version,
        files_analyzed=False,
        license_concluded=SpdxNoAssertion(),
        license_declared=declared,
        copyright_text=SpdxNoAssertion(),
        external_references=[
            ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", purl)
        ],
    )


def _oci(image: str) -> str:
    """Package URL of an image: NAME:TAG, or NAME@DIGEST."""
    repository, separator, version = re.fullmatch(r"(.+?)(@|:(?=[^/]*$))(.*)", image).groups()
    name = repository.rpartition("/")[2]
    if separator == "@":
        return f"pkg:oci/{name}@{version.replace(':', '%3A')}?repository_url={repository}"
    return f"pkg:oci/{name}?tag={version}"
