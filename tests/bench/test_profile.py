"""The profile of an upsert, run as a user runs it, has stages, kernels and flame graphs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_profile_has_stages_kernels_and_flame_graphs(tmp_path: Path) -> None:
    small = ["--rows", "4000", "--warm-rows", "2000", "--data", str(tmp_path / "data")]
    command = [sys.executable, "-m", "bench.profile", *small, "--out", str(tmp_path / "out"), "--publish", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "profile.json").read_text())
    assert {"stage", "store", "commit"} <= {row["stage"] for row in found["stages"]}
    kernels = {kernel["name"]: kernel["parts"] for kernel in found["kernels"]}
    assert {"decode", "encode", "merge"} <= set(kernels["run_or_keep"])
    assert all(seconds >= 0 for parts in kernels.values() for seconds in parts.values())
    assert {f"flame-{name}.svg" for name in ("driver", *kernels)} <= {file.name for file in tmp_path.glob("*.svg")}
