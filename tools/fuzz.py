"""Coverage-guided fuzzing of what reads files: damaged input is refused, and nothing else happens.

    pip install atheris                                       Linux, CPython 3.11 to 3.13
    python tools/fuzz.py TARGET SECONDS [CORPUS]

``model``
    Model files: headers and arrays behind a checksum that is made right, since nothing behind a
    wrong one is read. What is loaded predicts rows that sum to 1, and is saved and loaded again.
``state``
    States of a monitor, behind a checksum that is made right.
``jsonl``, ``csv``
    Lines of logs of language models, and tables with their heads.

Any exception that is no ``CalibrantError`` ends the run, and its input is written to a file
``crash-...``. Input that reached new code is kept in CORPUS, by default ``tests/data/fuzz/TARGET``,
which tests run through again.
"""

import contextlib
import hashlib
import sys
import tempfile
import warnings
from pathlib import Path

try:
    import atheris
except ImportError:  # the targets work without it, as in tests
    atheris = None

with atheris.instrument_imports(include=["calibrant"]) if atheris else contextlib.nullcontext():
    import numpy as np

    from calibrant import errors, model_file
    from calibrant._files.formats import read_prediction_file
    from calibrant.monitor import CalibrationMonitor

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "data" / "fuzz"
MAGIC = b"\x89CLBR\r\n\x1a\x01\x00"  # and the major version
LARGEST = 1 << 14  # bytes of an input: longer ones reach no other code
REFUSALS = (
    errors.DataError,
    errors.ParameterError,
    errors.ModelFileError,
    errors.PredictionFileError,
)
SCRATCH = Path(tempfile.mkdtemp(prefix="calibrant-fuzz-"))


def model(data):
    """Load a minor version, a header and arrays, with the right length and checksum before them."""
    minor, _, rest = data.partition(b"\n")
    header, _, arrays = rest.partition(b"\n")
    header += b" " * (-(16 + len(header)) % 8)
    number = int(minor) % 3 if minor.isdigit() and len(minor) < 3 else 0
    body = MAGIC + number.to_bytes(2, "little") + len(header).to_bytes(4, "little")
    body += header + arrays
    try:
        calibrator = model_file.loads(body + hashlib.sha256(body).digest())
    except errors.ModelFileError:
        return
    if getattr(calibrator, "n_features_in_", 1000) > 100:
        return  # predicting takes long
    row = np.full((1, calibrator.n_features_in_), 1.0 / calibrator.n_features_in_)
    with contextlib.suppress(*REFUSALS):  # of features, logits or one column
        result = calibrator.predict_proba(row)
        again = model_file.loads(model_file.dumps(calibrator)).predict_proba(row)
        assert np.array_equal(result, again), (result, again)
        assert np.isfinite(result).all(), result


def state(data):
    """Load the state of a monitor with a head that fits it."""
    body = data.decode("utf-8", "replace").rstrip("\n")
    digest = hashlib.sha256(body.encode()).hexdigest()
    head = f'{{"format": "calibrant.monitor", "version": 5, "sha256": "{digest}"}}'
    path = SCRATCH / "state"
    path.write_text(f"{head}\n{body}\n", "utf-8")
    with contextlib.suppress(errors.StatisticsError):
        CalibrationMonitor.load(path)


def jsonl(data):
    """Read lines of a log."""
    _read("log.jsonl", data)


def csv(data):
    """Read a table with its head."""
    _read("table.csv", data)


def _read(name, data):
    path = SCRATCH / name
    path.write_bytes(data)
    with contextlib.suppress(*REFUSALS):
        rows = read_prediction_file(path)
        assert np.ndim(rows.scores) in (1, 2)


TARGETS = {"model": model, "state": state, "jsonl": jsonl, "csv": csv}


def main(name, seconds, corpus=None):
    """Fuzz a target for a while."""
    warnings.simplefilter("ignore")
    corpus = Path(corpus or CORPUS / name)
    corpus.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", "-timeout=60"]
    options += ["-rss_limit_mb=4096", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
