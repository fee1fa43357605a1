"""farpoint-server goes with the client and the ops of its own version; the rest is in pyproject.toml."""

from setuptools import Distribution, setup

FAMILY = ("farpoint", "farpoint-ops")


class SameVersion(Distribution):
    def parse_config_files(self, *arguments: object, **options: object) -> None:
        super().parse_config_files(*arguments, **options)
        version = self.metadata.version  # setuptools-scm has found it by now
        self.metadata.install_requires = self.install_requires = [
            f"{name}=={version}" if name in FAMILY else name for name in self.install_requires
        ]


setup(distclass=SameVersion)
