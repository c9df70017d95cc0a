"""Modules of PyTorch give what ``predict_proba`` gives, and the same wherever they go."""

import getpass
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant import errors
from calibrant.datasets import simulated_scores
from conftest import refuses
from export.cases import CASES, KINDS, data, fitted, rows_for

torch = pytest.importorskip("torch")

from calibrant.export import save_pt2, to_torch  # noqa: E402

STEPS = ("fir", "na-fir", "hb-ovr", "no floor")
SMOOTH = ("ts", "vs", "ms", "dirichlet", "structured", "matrix", "spline")


def test_numbers_are_buffers_with_names_that_tell_what_they_are():
    module = to_torch(fitted("ts"))
    assert list(module.state_dict()) == ["map.inverse_temperature"]
    assert list(module.parameters()) == []
    assert module.map.inverse_temperature.dtype == torch.float64
    assert module.map.inverse_temperature.item() == fitted("ts").map_.inverse_temperature
    names = {*to_torch(fitted("chain")).state_dict()}
    assert {"map.stage_0.coef", "map.stage_1.edges", "map.stage_2.values"} <= names


def test_what_is_known_of_it():
    scores, y = simulated_scores(300)
    calibrator = calibrant.FlattenedIsotonic().fit(scores, np.array(["bird", "cat", "dög"])[y])
    module = to_torch(calibrator)
    assert module.classes == ["bird", "cat", "dög"]
    assert (module.method, module.n_classes, module.input) == ("fir", 3, "probabilities")


@pytest.mark.parametrize("case", ["fir", "scir", "ir-ovr", "ts"])
def test_no_type_rounds_what_is_fitted(case):
    module = to_torch(fitted(case))
    before = {name: value.numpy().tobytes() for name, value in module.state_dict().items()}
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), module)
    for change in (torch.nn.Module.half, lambda network: network.to("cpu", torch.float32)):
        change(network)
        assert {n: v.numpy().tobytes() for n, v in module.state_dict().items()} == before
    rows = torch.tensor(data("probabilities", 4)[2]).half()
    wanted = fitted(case).predict_proba(rows.numpy())
    np.testing.assert_allclose(module(rows).numpy(), wanted, rtol=0, atol=1e-3)
    for dtype in (torch.float16, torch.bfloat16):
        assert torch.equal(module(rows.to(dtype)), module(rows.to(dtype).double()).to(dtype))


def test_scores_of_another_shape_or_type_are_refused():
    module = to_torch(fitted("ts"))
    for shape in [(5, 3), (4,)]:
        with refuses("scores", errors.ShapeError):
            module(torch.zeros(shape))
    with refuses("scores", errors.ContainerError):
        module(torch.zeros((5, 4), dtype=torch.int64))


@pytest.mark.parametrize("case", SMOOTH)
def test_derivatives(case):
    logits = torch.tensor(np.random.default_rng(0).normal(0, 2, (5, 4)), requires_grad=True)
    of_logits, of_scores = to_torch(fitted(case, "logits")), to_torch(fitted(case))
    assert torch.autograd.gradcheck(of_logits, logits)
    assert torch.autograd.gradcheck(lambda z: of_scores(z.softmax(1)), logits)
    scores = (1.001 * logits.softmax(1)).detach().requires_grad_()  # they are divided by the sum
    assert torch.autograd.gradcheck(of_scores, scores)
    both = to_torch(fitted(case), input="logits")
    assert torch.autograd.gradcheck(both, logits)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_numbers(case, kind):
    """Also where there are exact zeros; those of steps are zero."""
    rows = torch.tensor(data(kind, 4)[2], requires_grad=True)
    to_torch(fitted(case, kind))(rows).square().sum().backward()
    assert rows.grad.isfinite().all()
    assert case not in STEPS or not rows.grad.any()


QUICK = {"fir", "scir"}  # each takes a second


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
)
def test_compiled(case):
    rows = torch.tensor(rows_for(fitted(case)))
    module = to_torch(fitted(case))
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    assert torch.equal(compiled(rows), module(rows))


# Files: whole, without a trace of where they were made, and read without calibrant


QUICK_FILES = [("fir", "probabilities"), ("scir", "probabilities"), ("ts", "logits")]


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, kind, marks=[] if (case, kind) in QUICK_FILES else [pytest.mark.slow])
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
    with pytest.raises((RuntimeError, AssertionError), match=r"shape|size"):
        program(rows[:, :3])


def test_no_path_and_no_user_is_in_the_file(tmp_path):
    path = tmp_path / "model.pt2"
    save_pt2(to_torch(fitted("ir-ovr")), path)
    package = Path(calibrant.__file__).parent
    traces = {str(p) for p in (tmp_path, package, package.parents[1], Path.home(), Path.cwd())}
    traces |= {str(Path(torch.__file__).parent), getpass.getuser(), ".py", "/tmp/", "File "}
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        content = [*map(archive.read, names), *map(str.encode, names)]
    assert any(name.endswith("models/model.json") for name in names)
    assert [trace for trace in traces if any(trace.encode() in part for part in content)] == []


def test_it_is_read_without_calibrant(tmp_path):
    path, rows = tmp_path / "model.pt2", rows_for(fitted("ir-ovr"))
    calibrator = fitted("ir-ovr")
    save_pt2(to_torch(calibrator), path, dtype="float64")
    np.save(tmp_path / "rows.npy", rows)
    code = (
        "import json, sys, numpy, torch\n"
        "about = dict.fromkeys(['calibrant.classes', 'calibrant.method'], '')\n"
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


def test_a_type_that_is_none_is_refused(tmp_path):
    with refuses("dtype"):
        save_pt2(to_torch(fitted("ts")), tmp_path / "model.pt2", dtype="float16")
    assert [*tmp_path.iterdir()] == []
