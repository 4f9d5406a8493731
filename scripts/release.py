"""Builds a release: wheel, source archive and SBOM in `dist/`, and checks what a release needs. Uploads nothing.

The version of `pyproject.toml` needs its section in CHANGELOG.md and in CITATION.cff, and the work tree must be clean. Both
archives are built twice and must have the same bytes: times in them are those of the last commit. The SBOM lists the packages
that a plain installation needs, in the versions of constraints.txt, as CycloneDX JSON.

`make release` runs it. `--no-tree-check` builds from a work tree with changes, for tests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).parent / "uv"
NAME = "penstock"


def main() -> None:
    """Check the tree, build twice, compare, write the SBOM, and print each file with its size and SHA-256."""
    parser = argparse.ArgumentParser(description="Build a release of Penstock.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the built files")
    parser.add_argument("--no-tree-check", action="store_true", help="also build from a work tree with changes")
    arguments = parser.parse_args()
    version = read_version()
    problems = check_pages(version)
    if not arguments.no_tree_check:
        problems += check_tree(version)
    if problems:
        sys.exit("\n".join(problems))
    built = build(arguments.out)
    with tempfile.TemporaryDirectory() as second:
        different = [path.name for path in build(Path(second)) if path.read_bytes() != (arguments.out / path.name).read_bytes()]
    if different:
        sys.exit(f"not reproducible: a second build of {', '.join(different)} has other bytes")
    sbom = arguments.out / f"{NAME}-{version}.cdx.json"
    sbom.write_text(json.dumps(describe_packages(version), indent=2) + "\n", encoding="utf-8")
    for path in [*built, sbom]:
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.stat().st_size:>9}  {path.name}")
    print(f"To publish: git tag v{version}, push the tag, and upload the two archives.")


def read_version() -> str:
    """Return the version in `pyproject.toml`."""
    found = re.search(r'^version = "([^"]+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError("pyproject.toml has no line `version = …`")
    return found[1]


def check_pages(version: str) -> list[str]:
    """Return what CHANGELOG.md and CITATION.cff lack for the version."""
    problems = []
    heading = re.escape(f"## {version} (")
    if not re.search(rf"^{heading}\d{{4}}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        problems.append(f"CHANGELOG.md has no heading `## {version} (YYYY-MM-DD)`: give the changes below Unreleased a version")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        problems.append(f"CITATION.cff has another version than {version}: correct its line `version:`")
    return problems


def check_tree(version: str) -> list[str]:
    """Return why the work tree is not the one to release: changes, or a tag of the version on another commit."""
    problems = []
    if git("status", "--porcelain"):
        problems.append("the work tree has changes: commit them, or build with --no-tree-check")
    if git("tag", "--list", f"v{version}") and git("rev-list", "-n", "1", f"v{version}") != git("rev-parse", "HEAD"):
        problems.append(f"the tag v{version} is on another commit: raise the version in pyproject.toml")
    return problems


def build(folder: Path) -> list[Path]:
    """Build the wheel and the source archive into the folder. Return their paths."""
    # Archives hold the time of the last commit, not of the build: the same commit has the same bytes.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct")}
    options = ["--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder)]
    command = [str(UV), "build", *options, str(ROOT)]
    subprocess.run(command, check=True, env=environment)
    version = read_version()
    return [folder / f"{NAME}-{version}-py3-none-any.whl", folder / f"{NAME}-{version}.tar.gz"]


def describe_packages(version: str) -> dict[str, object]:
    """Return the CycloneDX document of a plain installation: Penstock and the packages that it needs, without extras."""
    packages = sorted(set(required_packages(NAME)))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": describe_package(NAME, version)},
        "components": [describe_package(name, distribution(name).version) for name in packages],
    }


def required_packages(name: str) -> Iterator[str]:
    """Yield the packages that a package needs on this Python, directly or not, without extras."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name
            yield from required_packages(requirement.name)


def describe_package(name: str, version: str) -> dict[str, object]:
    """Return the CycloneDX component of a package. Its licence is the one that the package declares."""
    metadata = distribution(name).metadata
    declared = [metadata[field] for field in ("License-Expression", "License") if field in metadata]
    licence = next(filter(None, declared), "unknown")
    first_line = licence.strip().splitlines()[0]
    purl = f"pkg:pypi/{name.lower()}@{version}"
    return {"type": "library", "name": name, "version": version, "purl": purl, "licenses": [{"license": {"name": first_line}}]}


def git(*arguments: str) -> str:
    """Return what a git command prints."""
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


if __name__ == "__main__":
    main()
