"""What carries out a formula: numpy, ONNX Runtime, PyTorch."""

import pytest

from calibrant.export._pipeline import write_rows
from export.numpy_operations import NumpyOperations


def run_numpy(calibrator, rows, kind):
    return write_rows(NumpyOperations(calibrator.n_features_in_), calibrator, rows, kind)


def session(model):
    """ONNX Runtime with a model, on one thread."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run_graph(model, rows):
    """The only output of a model for its only input."""
    here = session(model)
    (given,) = here.get_inputs()
    (found,) = here.run(None, {given.name: rows})
    return found


def run_onnx(calibrator, rows, kind, **options):
    pytest.importorskip("onnx")
    from calibrant.export import to_onnx

    model = to_onnx(calibrator, input=kind, dtype=rows.dtype.name, **options)
    return run_graph(model, rows)


def run_torch(calibrator, rows, kind):
    torch = pytest.importorskip("torch")
    from calibrant.export import to_torch

    return to_torch(calibrator, input=kind)(torch.tensor(rows)).numpy()


RUN = {"numpy": run_numpy, "onnx": run_onnx, "torch": run_torch}
WAYS = [
    *(("numpy", "float64"), ("onnx", "float64"), ("onnx", "float32")),
    *(("torch", "float64"), ("torch", "float32")),
]


def ways(cases, among=WAYS):
    """Cases by backend and type."""
    return pytest.mark.parametrize(
        ("case", "backend", "dtype"), [(case, *way) for case in cases for way in among]
    )
