"""Certificates as files, each from an authority of its own."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Files:
    """PEM files of one authority and one certificate for 127.0.0.1 from it."""

    ca: Path
    certificate: Path
    key: Path

    def flags(self, client_ca: Path | None = None) -> list[str]:
        """Flags of a server."""
        flags = ["--tls-certificate", str(self.certificate), "--tls-key", str(self.key)]
        return flags if client_ca is None else [*flags, "--tls-client-ca", str(client_ca)]

    def replace_with(self, other: "Files") -> None:
        """Writes the contents of another authority's files to these."""
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            mine.write_bytes(theirs.read_bytes())


def issue(folder: Path) -> Files:
    """A new authority and a certificate, in a folder that is made."""
    folder.mkdir()
    files = Files(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(str(files.ca))
    files.certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    files.key.write_bytes(issued.private_key_pem.bytes())
    return files
