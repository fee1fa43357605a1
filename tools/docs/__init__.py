"""Pages of the site that are made at build time: contract, settings, metrics, API reference."""
