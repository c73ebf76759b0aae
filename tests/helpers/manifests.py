"""The release.json of a saved release, edited as somebody would who knows its format."""

import json

from tallytree.release.files import sha256
from tallytree.release.manifest import manifest_text


def rewrite(folder, change, *, files=()):
    """Change what release.json says; digest and, of some files, checksums are made to agree.

    Args:
        folder: of the release.
        change: gets the parsed manifest, without its digest, and changes it in place.
        files: names of files that were changed too.
    """
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    manifest.pop("digest", None)
    for name in files:
        manifest["files"][name]["sha256"] = sha256(folder / name)
    change(manifest)
    (folder / "release.json").write_text(manifest_text(manifest), encoding="utf-8")
