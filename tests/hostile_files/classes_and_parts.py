"""Broken classes, methods, parameters and parts."""

from __future__ import annotations

import json

import numpy as np

from calibrant import errors as e
from hostile_files.registry import CASES, case

# Classes.


@case(e.StoredClassesError, match="repeated")
def classes_repeated(f):
    f.put("vector/0", [0, 1, 1])


@case(e.StoredClassesError, match="1 classes")
def one_class(f):
    f.replace_array("vector/0", [0])


@case(e.FittedValueError, "vs", "does not take rows of 4")
def more_classes_than_parameters(f):
    f.replace_array("vector/0", [0, 1, 2, 3])


@case(e.StoredClassesError, match="1000000")
def too_many_classes(f):
    f.replace_array("vector/0", np.arange(1_000_001))


def _texts(values, dtype="str"):
    def change(f):
        f.header["vectors"] = [{"type": "str", "dtype": dtype, "values": values}]
        f.header["arrays"], f.data = [], b""

    return change


for _name, _change in {
    "labels_too_long": _texts(["a", "b", "c" * 1025]),
    "labels_that_numpy_would_blow_up": _texts([str(i) for i in range(100_000)] + ["x" * 1024]),
    "labels_that_end_in_a_null": _texts(["a", "b", "b\0"]),
    "labels_that_are_numbers": _texts(["a", "b", 3]),
    "labels_that_are_null": _texts(["a", "b", None]),
    "labels_of_unknown_dtype": _texts(["a", "b", "c"], "O"),
    "labels_in_a_list_of_none": _texts([]),
    "labels_in_the_wrong_dtype": _texts(["a", "b", "c"], "int64"),
}.items():
    CASES.append((_name, "ts", _change, e.StoredClassesError, ""))


@case(e.StoredClassesError, match="fraction")
def classes_that_are_fractions(f):
    f.header["vectors"][0] = {"type": "float", "dtype": "float64"}
    f.entry("vector/0")["dtype"] = "float64"
    f.put("vector/0", [0.5, 1.0, 2.0])


@case(e.StoredClassesError)
def classes_that_are_nan(f):
    f.header["vectors"][0] = {"type": "float", "dtype": "float64"}
    f.entry("vector/0")["dtype"] = "float64"
    f.put("vector/0", [0.0, 1.0, np.nan])


@case(e.StoredClassesError, match="survive")
def classes_that_do_not_fit_their_dtype(f):
    f.header["vectors"][0]["dtype"] = "int8"
    f.put("vector/0", [0, 1, 256])


@case(e.StoredClassesError, match="neither 0 nor 1")
def booleans_that_are_two(f):
    f.header["vectors"][0] = {"type": "bool", "dtype": "bool"}


@case(e.StoredClassesError)
def bytes_that_are_not_hexadecimal(f):
    f.header["vectors"] = [{"type": "bytes", "dtype": "bytes", "values": ["0g", "00", "01"]}]
    f.header["arrays"], f.data = [], b""


@case(e.StoredClassesError)
def classes_without_their_array(f):
    f.entry("vector/0")["name"] = "vector/9"


@case(e.HeaderFieldError, match="no vector")
def classes_by_a_wrong_index(f):
    f.part()["classes"] = 5


@case(e.HeaderFieldError)
def classes_missing(f):
    f.part()["classes"] = None


@case(e.StoredClassesError, match="names of 3 columns")
def names_of_columns_that_are_numbers(f):
    f.part()["feature_names"] = 0


@case(e.NestingError, match="belongs to nothing")
def vector_that_nobody_needs(f):
    f.header["vectors"].append({"type": "str", "dtype": "str", "values": ["x"]})


@case(e.StoredClassesError, match="257 vectors")
def too_many_vectors(f):
    f.header["vectors"] += [{"type": "str", "dtype": "str", "values": ["x"]}] * 256


# Methods and parameters.


@case(e.UnknownMethodError, match="'os.system'")
def unknown_method(f):
    f.part()["method"] = "os.system"


@case(e.HeaderFieldError)
def method_that_is_no_text(f):
    f.part()["method"] = ["ts"]


@case(e.StoredParameterError, match="no parameter '__class__'")
def unknown_parameter(f):
    f.part()["parameters"]["__class__"] = "x"


for _name, _parameters in {
    "parameter_of_the_wrong_type": {"tol": "small"},
    "parameter_that_is_a_list": {"tol": [1.0]},
    "parameter_that_is_nan": {"tol": {"float": "nan"}},
    "parameter_out_of_range": {"tol": -1.0},
    "parameter_that_is_true": {"tol": True},
    "parameter_not_among_the_options": {"scores": "odds"},
    "parameter_null": {"scores": None},
    "normalize_unknown": {"normalize": "columns"},
    "floor_too_high_for_the_classes": {"min_probability": 0.4},
    "floor_that_is_text": {"min_probability": "0"},
    "parameter_with_an_unknown_float": {"tol": {"float": "1e-3"}},
    "parameter_with_broken_bytes": {"classes": {"bytes": "xyz"}},
}.items():

    def _change(f, parameters=_parameters):
        f.part()["parameters"] |= parameters

    CASES.append((_name, "ts", _change, e.StoredParameterError, ""))


for _name, _parameters in {
    "solver_unknown": {"solver": "exakt"},
    "options_of_an_unknown_name": {"solver": {"options": "Thread", "values": {}}},
    "option_unknown": {"solver": {"options": "SLSQP", "values": {"target": "x"}}},
    "option_out_of_range": {"solver": {"options": "Annealing", "values": {"beta": -1.0}}},
    "option_of_the_wrong_type": {"solver": {"options": "Annealing", "values": {"beta": "1"}}},
    "option_beside_its_solver": {"solver": {"options": "SLSQP", "values": {}}, "beta": 1.0},
    "option_of_older_files_out_of_range": {"solver": "exact", "beta": -1.0},
}.items():

    def _change(f, parameters=_parameters):
        f.part()["parameters"] |= parameters

    CASES.append((_name, "na-fir", _change, e.StoredParameterError, ""))


@case(e.HeaderFieldError, match="no field 'part'")
def parameter_of_an_unknown_kind(f):
    f.part()["parameters"]["tol"] = {"eval": "1+1"}


@case(e.HeaderFieldError, match="unknown field")
def parameter_of_two_kinds(f):
    f.part()["parameters"]["classes"] = {"tuple": [1], "float": "inf"}


@case(e.StoredParameterError, "chain")
def parameter_without_a_default_missing(f):
    del f.part()["parameters"]["calibrators"]


for _name, _value in {
    "no_calibrators": [],
    "calibrators_that_are_a_number": 5,
    "calibrators_that_are_text": "ts",
    "calibrators_that_are_null": None,
    "calibrators_in_tuples_of_three": [{"tuple": ["a", {"part": 0}, {"part": 1}]}],
    "calibrators_with_a_list_as_name": [
        {"tuple": [["a"], {"part": 0}]},
        {"tuple": ["b", {"part": 1}]},
    ],
}.items():

    def _change(f, value=_value):
        f.part()["parameters"]["calibrators"] = value

    CASES.append((_name, "chain", _change, e.StoredParameterError, ""))


# Parts.


@case(e.NestingError, "chain", "no part before it")
def part_that_contains_itself(f):
    f.part()["fitted"]["calibrators_"] = [len(f.header["parts"]) - 1]


@case(e.NestingError, "chain", "no part before it")
def part_before_the_first(f):
    f.part()["fitted"]["calibrators_"] = [-1]


@case(e.NestingError, "chain", "fitted, or is not")
def part_that_is_not_fitted(f):
    f.part()["fitted"]["calibrators_"] = [0]


@case(e.NestingError, "chain", "fitted, or is not")
def unfitted_part_that_is_fitted(f):
    f.part()["parameters"]["calibrators"] = [{"part": 2}]


@case(e.NestingError, "chain", "belongs to nothing")
def part_that_nobody_needs(f):
    f.part()["fitted"]["calibrators_"] = [2]


@case(e.NestingError, match="no fitted calibrator")
def no_parts(f):
    f.header |= {"parts": [], "vectors": [], "arrays": []}
    f.data = b""


@case(e.HeaderFieldError, match="not fitted")
def unfitted_part_with_classes(f):
    f.part()["fitted"] = None


@case(e.NestingError, match="no fitted calibrator")
def outermost_part_not_fitted(f):
    f.part()["fitted"] = f.part()["classes"] = None


@case(e.FittedValueError, "chain", "other classes")
def part_of_other_classes(f):
    f.header["vectors"].append({"type": "str", "dtype": "str", "values": ["a", "b", "c"]})
    f.part(2)["classes"] = 1


@case(e.FittedValueError, "chain", "other classes")
def part_of_more_classes(f):
    f.header["vectors"].append({"type": "str", "dtype": "str", "values": ["a", "b", "c", "d"]})
    f.part(3)["classes"] = 1


@case(e.FittedValueError, "chain", "takes logits")
def part_of_another_kind_of_scores(f):
    f.part(3)["parameters"]["scores"] = "logits"


@case(e.FittedValueError, "mixture", "sum to 1")
def weights_that_do_not_sum_to_one(f):
    f.put("weights_", [0.5, 0.6])


@case(e.FittedValueError, "mixture", "outside")
def weight_negative(f):
    f.put("weights_", [1.5, -0.5])


@case(e.FittedValueError, "mixture", "length")
def more_weights_than_parts(f):
    f.replace_array("weights_", [0.5, 0.25, 0.25])


def nest(f, times, copies=1):
    """Put the outermost calibrator, a mixture, into mixtures of it."""
    for _ in range(times):
        i = len(f.header["parts"])
        entry = json.loads(json.dumps(f.part()))
        entry["fitted"]["calibrators_"] = [i - 1] * copies
        f.add_array(f"{i}/weights_", np.full(copies, 1 / copies))
        f.header["parts"].append(entry)


@case(e.NestingError, "mixture", "8 deep")
def mixtures_nine_deep(f):
    nest(f, 7)


@case(e.NestingError, "mixture", "as often as they are used")
def mixtures_that_double_at_each_level(f):
    nest(f, 5, copies=8)


@case(e.NestingError, match="more than 256")
def too_many_parts(f):
    spare = json.loads(json.dumps(f.part())) | {"fitted": None, "classes": None}
    f.header["parts"][:0] = [spare] * 256


@case(e.FittedValueError, "auto", "no map to average")
def no_paths(f):
    f.part()["fitted"]["paths_"] = []


@case(e.FittedValueError, "auto", "no stage")
def path_without_a_stage(f):
    f.part()["fitted"]["paths_"][0] = []


@case(e.FittedValueError, "auto", "without candidates")
def report_without_candidates(f):
    f.part()["fitted"]["report_"]["candidates"] = []


@case(e.FittedValueError, "auto", "sum to 1")
def weights_of_paths_that_do_not_sum_to_one(f):
    f.put("weights_", f.array(f"{len(f.header['parts']) - 1}/weights_") / 2)


@case(e.FittedValueError, "auto", "takes logits")
def stage_of_another_kind_of_scores(f):
    for i in {i for path in f.part()["fitted"]["paths_"] for i in path[1:]}:
        f.part(i)["parameters"]["scores"] = "logits"


@case(e.StoredParameterError, "auto")
def candidates_that_are_numbers(f):
    f.part()["parameters"]["candidates"] = [1, 2]


@case(e.HeaderFieldError, "chain", "calibrators_")
def a_chain_without_its_parts(f):
    del f.part()["fitted"]["calibrators_"]
