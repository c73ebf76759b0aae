"""A release in the browser: `tallytree explore DIR`. It reads the release's own files, and nothing else."""
