"""Graphs in ONNX Runtime against ``predict_proba``, for every method."""

import json
import warnings

import numpy as np
import pytest

from calibrant import errors, model_file
from calibrant.calibrators.methods import make_calibrator, methods
from calibrant.export.pipeline import take_calibrator
from calibrant.maps.base import CalibrationMap

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from conftest import REAL_FILES, each_real_file, load_real, simulate  # noqa: E402
from export_cases import CASES, fitted  # noqa: E402
from rows_at_thresholds import rows_at_thresholds  # noqa: E402

from calibrant.export import merge_onnx, to_onnx  # noqa: E402
