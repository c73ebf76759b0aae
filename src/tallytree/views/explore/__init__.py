"""A release in the browser: `tallytree explore DIR` makes one static page of the release's own files."""
