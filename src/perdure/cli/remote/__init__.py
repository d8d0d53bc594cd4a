"""Commands on a service: `--store https://...`."""
