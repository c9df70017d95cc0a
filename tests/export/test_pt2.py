"""Files of PyTorch: whole, without a trace of where they were made, and read without calibrant."""

import getpass
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.errors import ParameterError
from export.cases import CASES, KINDS, fitted, rows_for

torch = pytest.importorskip("torch")
from calibrant.export import save_pt2, to_torch  # noqa: E402

QUICK = [("fir", "probabilities"), ("scir", "probabilities"), ("ts", "logits")]


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, marks=[] if (case, kind) in QUICK else [pytest.mark.slow])
        for case in CASES
        for kind in KINDS
    ],
)
def test_the_file_gives_the_same_for_any_number_of_rows(case, kind, tmp_path):
    path, rows = tmp_path / "model.pt2", torch.tensor(rows_for(fitted(case, kind), "float32"))
    module = to_torch(fitted(case, kind))
    save_pt2(module, path)
    program = torch.export.load(path).module()
    for n_rows in (0, 1, 2, len(rows)):
        assert torch.equal(program(rows[:n_rows]), module(rows[:n_rows]))
    with pytest.raises(RuntimeError, match="dtype"):
        program(rows.double())
    with pytest.raises(RuntimeError, match="shape"):
        program(rows[:, :3])


def test_no_path_and_no_user_is_in_the_file(tmp_path):
    path = tmp_path / "model.pt2"
    save_pt2(to_torch(fitted("m2b-ir")), path)
    package = Path(calibrant.__file__).parent
    traces = {str(p) for p in (tmp_path, package, package.parents[1], Path.home(), Path.cwd())}
    traces |= {str(Path(torch.__file__).parent), getpass.getuser(), ".py", "/tmp/", "File "}
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        content = [*map(archive.read, names), *map(str.encode, names)]
    assert [name for name in names if name.endswith("models/model.json")]
    for trace in traces:
        assert not any(trace.encode() in part for part in content), trace


def test_it_is_read_without_calibrant(tmp_path):
    path, rows = tmp_path / "model.pt2", rows_for(fitted("ir-ovr"))
    calibrator = fitted("ir-ovr")
    save_pt2(to_torch(calibrator), path, dtype="float64")
    np.save(tmp_path / "rows.npy", rows)
    code = (
        "import json, sys, numpy, torch\n"
        "about = dict.fromkeys(['calibrant.classes', 'calibrant.method', 'calibrant.sha256'], '')\n"
        "program = torch.export.load('model.pt2', extra_files=about).module()\n"
        "found = program(torch.tensor(numpy.load('rows.npy'))).numpy()\n"
        "numpy.save('found.npy', found)\n"
        "assert not [name for name in sys.modules if name.startswith('calibrant')]\n"
        "print(json.dumps(about))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = np.load(tmp_path / "found.npy")
    np.testing.assert_allclose(found, calibrator.predict_proba(rows), rtol=0, atol=1e-12)
    about = json.loads(out.stdout)
    assert json.loads(about["calibrant.classes"]) == [0, 1, 2, 3]
    assert about["calibrant.method"] == "ir-ovr"
    assert about["calibrant.sha256"] == calibrant.model_file.digest(calibrator)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "model.pt2"
    path.write_bytes(b"old")

    def half(_, file, **__):
        file.write(b"half")
        raise OSError

    monkeypatch.setattr(torch.export, "save", half)
    with pytest.raises(OSError):
        save_pt2(to_torch(fitted("ts")), path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt2"]
    with pytest.raises(ParameterError, match="dtype"):
        save_pt2(to_torch(fitted("ts")), path, dtype="float16")
