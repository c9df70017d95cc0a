"""What pytest makes of test modules themselves."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_a_test_module_that_cannot_be_imported_is_an_error(tmp_path):
    broken = tmp_path / "test_broken.py"
    broken.write_text("from calibrant import nothing_of_this_name\n\n\ndef test_it():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), str(broken)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 2, found.stdout
    assert "nothing_of_this_name" in found.stdout
