"""Run ONNX models in a runtime of Python; for tools/measure_runtimes.py and its tests.

    python tools/runtime_worker.py RUNTIME FOLDER

FOLDER has ``models.json``, a list of models with their name, the type of their numbers and their
shape. Of each, NAME.onnx is given NAME.rows, and what it makes of them is written to NAME.found, or
what was raised to NAME.error; those that have either are left out. Numbers are written as they are
in memory, so that node.js reads them as well (runtime_worker.mjs).
"""

import json
import sys
from pathlib import Path

import numpy as np


def run_onnxruntime(path, rows):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: rows})[0]


def run_reference(path, rows):
    import onnx
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx.load(path))
    with np.errstate(all="ignore"):
        return evaluator.run(None, {evaluator.input_names[0]: rows})[0]


def run_openvino(path, rows):
    import openvino

    # Without it, processors that have bfloat16 multiply matrices in 8 bits.
    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return next(iter(model(rows).values()))


def run_tract(path, rows):
    import tract

    model = tract.onnx().load(path)
    sizes = ",".join(map(str, rows.shape))
    model.set_input_fact(0, f"{sizes},f{8 * rows.itemsize}")
    return model.into_model().into_runnable().run([rows])[0].to_numpy()


RUNTIMES = {
    "onnxruntime": run_onnxruntime,
    "reference": run_reference,
    "openvino": run_openvino,
    "tract": run_tract,
}


def main(runtime, folder):
    folder = Path(folder)
    for model in json.loads((folder / "models.json").read_text()):
        paths = {
            end: folder / f"{model['name']}.{end}" for end in ("onnx", "rows", "found", "error")
        }
        if paths["found"].exists() or paths["error"].exists():
            continue
        rows = np.fromfile(paths["rows"], model["dtype"]).reshape(model["shape"])
        try:
            found = np.ascontiguousarray(RUNTIMES[runtime](str(paths["onnx"]), rows))
        except Exception as error:  # noqa: BLE001  (whatever a runtime raises is its result)
            paths["error"].write_text(f"{type(error).__name__}: {error}")
        else:
            found.astype(model["dtype"]).tofile(paths["found"])


if __name__ == "__main__":
    main(*sys.argv[1:])
