"""Broken arrays, step functions, numbers and maps."""

from __future__ import annotations

import numpy as np

from calibrant import errors as e
from hostile_files.registry import CASES, case, put_number

# Arrays.


@case(e.ArrayLayoutError, "fir")
def shape_whose_product_overflows(f):
    f.entry("thresholds")["shape"] = [2**32, 2**32, 3]


@case(e.ArrayLayoutError, "fir")
def shape_whose_bytes_overflow(f):
    f.entry("thresholds")["shape"] = [2**61 + 1]


@case(e.ArrayLayoutError, "fir")
def shape_that_is_negative(f):
    f.entry("thresholds")["shape"] = [-3]


@case(e.ArrayLayoutError, "fir")
def shape_with_a_zero(f):
    f.entry("thresholds")["shape"] = [2**60, 0]


@case(e.ArrayLayoutError, "fir")
def shape_of_nothing(f):
    f.entry("thresholds")["shape"] = []


@case(e.ArrayLayoutError, "fir")
def shape_of_many_dimensions(f):
    f.entry("thresholds")["shape"] = [1] * 40


@case(e.ArrayLayoutError, "fir")
def shape_of_floats(f):
    f.entry("thresholds")["shape"] = [3.0]


@case(e.ArrayLayoutError, "fir")
def shape_of_booleans(f):
    f.entry("vector/0")["shape"] = [True, 3]


@case(e.ArrayLayoutError, "fir")
def offset_negative(f):
    f.entry("values")["offset"] = -8


@case(e.ArrayLayoutError, "fir")
def offsets_that_overlap(f):
    f.entry("values")["offset"] = f.entry("thresholds")["offset"]


@case(e.ArrayLayoutError, "fir")
def offset_beyond_the_data(f):
    f.entry("values")["offset"] = 2**62


@case(e.ArrayLayoutError, "fir")
def hole_between_arrays(f):
    last = f.header["arrays"][-1]
    f.data = f.data[: last["offset"]] + bytes(8) + f.data[last["offset"] :]
    last["offset"] += 8


@case(e.ArrayLayoutError, "fir", "belong to no array")
def bytes_behind_the_arrays(f):
    f.data += b"PK\x05\x06" + bytes(20)


@case(e.ArrayLayoutError, "fir")
def data_that_is_too_short(f):
    f.data = f.data[:-8]


@case(e.ArrayLayoutError, "fir")
def dtype_of_objects(f):
    f.entry("thresholds")["dtype"] = "object"


@case(e.ArrayLayoutError, "fir")
def dtype_of_32_bits(f):
    f.entry("thresholds")["dtype"] = "float32"


@case(e.ArrayLayoutError, "fir")
def dtype_of_the_other_kind(f):
    f.entry("values")["dtype"] = "int64"


@case(e.ArrayLayoutError, "fir", "no name of its own")
def two_arrays_of_one_name(f):
    f.entry("values")["name"] = f.entry("thresholds")["name"]


@case(e.ArrayLayoutError, "fir", "there is no array")
def array_missing(f):
    f.entry("values")["name"] = "other"


@case(e.ArrayLayoutError, "fir", "belongs to nothing")
def array_that_nobody_needs(f):
    f.add_array("extra", [1.0])


@case(e.ArrayLayoutError, "fir", "64 at most")
def too_many_arrays(f):
    for i in range(65):
        f.add_array(f"extra {i}", [1.0])


@case(e.FittedValueError, "vs", "shape")
def array_of_other_dimensions(f):
    f.entry("coef_")["shape"] = [3, 1]


@case(e.ArrayLayoutError, "fir", "2 dimensions")
def thresholds_of_two_dimensions(f):
    f.entry("thresholds")["shape"] += [1]


# Step functions.


for _name, _array, _place, _value in [
    ("threshold_nan", "thresholds", 1, np.nan),
    ("threshold_infinite", "thresholds", -1, np.inf),
    ("threshold_above_one", "thresholds", -1, 1.5),
    ("threshold_negative", "thresholds", 0, -0.1),
    ("first_threshold_above_zero", "thresholds", 0, 1e-300),
    ("thresholds_not_increasing", "thresholds", 2, 0.0),
    ("threshold_negative_zero", "thresholds", 0, -0.0),
    ("value_nan", "values", 1, np.nan),
    ("value_infinite", "values", -1, np.inf),
    ("value_above_one", "values", -1, 1.5),
    ("value_negative", "values", 0, -1e-9),
    ("values_decreasing", "values", -1, 0.0),
    ("values_all_zero", "values", slice(None), 0.0),
    ("value_negative_zero", "values", 0, -0.0),
    ("size_negative", "sizes", 0, -1.0),
    ("size_nan", "sizes", 0, np.nan),
]:
    CASES.append((_name, "fir", put_number(_array, _place, _value), e.FittedValueError, ""))


@case(e.FittedValueError, "fir", "alike")
def step_function_of_two_lengths(f):
    f.replace_array("values", f.array("values")[:-1])


@case(e.FittedValueError, "scir", "rank to rank")
def surface_not_monotone_in_rank(f):
    values, offsets = f.array("values"), f.array("offsets")
    values[offsets[1] :] = values[offsets[1] :].min()
    f.put("values", values)


@case(e.FittedValueError, "scir", "increase strictly")
def offsets_of_ranks_that_decrease(f):
    offsets = f.array("offsets")
    offsets[1] = 0
    f.put("offsets", offsets)


@case(e.FittedValueError, "scir", "increase strictly")
def offsets_of_ranks_beyond_the_blocks(f):
    offsets = f.array("offsets")
    offsets[-1] += 1
    f.put("offsets", offsets)


@case(e.FittedValueError, "scir", "increase strictly")
def offsets_of_ranks_that_overflow(f):
    offsets = f.array("offsets")
    offsets[1] = 2**63 - 1
    f.put("offsets", offsets)


for _name, _array, _place, _value in [
    ("ranked_threshold_nan", "thresholds", 1, np.nan),
    ("ranked_value_above_one", "values", -1, 1.5),
    ("ranked_value_nan", "values", 0, np.nan),
]:
    CASES.append((_name, "scir", put_number(_array, _place, _value), e.FittedValueError, ""))


@case(e.FittedValueError, "scir", "does not take rows of 3 classes")
def more_ranks_than_classes(f):
    f.replace_array("thresholds", np.zeros(9))
    f.replace_array("values", np.linspace(0, 1, 9))
    f.replace_array("offsets", np.arange(10))


# Numbers, arrays and maps.

for _name, _field, _value in [
    ("inverse_temperature_negative", "inverse_temperature_", -0.5),
    ("inverse_temperature_too_large", "inverse_temperature_", 1e101),
    ("inverse_temperature_nan", "inverse_temperature_", "nan"),
    ("zero_logit_positive", "zero_logit_", 1.0),
    ("zero_logit_infinite", "zero_logit_", "-inf"),
]:

    def _change(f, field=_field, value=_value):
        f.part()["fitted"][field] = value

    CASES.append((_name, "ts", _change, e.FittedValueError, _field[:-1]))

for _name, _field, _value in [
    ("number_that_is_whole", "inverse_temperature_", 1),
    ("number_that_is_true", "inverse_temperature_", True),
    ("number_that_is_text", "inverse_temperature_", "1.0"),
    ("number_that_is_null", "inverse_temperature_", None),
]:

    def _change(f, field=_field, value=_value):
        f.part()["fitted"][field] = value

    CASES.append((_name, "ts", _change, e.HeaderFieldError, _field))

for _name, _array, _place, _value in [
    ("slope_nan", "coef_", 0, np.nan),
    ("slope_infinite", "coef_", 0, np.inf),
    ("slope_too_large", "coef_", 0, 1e200),
    ("intercept_too_large", "intercept_", 2, -1e308),
]:
    CASES.append((_name, "vs", put_number(_array, _place, _value), e.FittedValueError, _array[:-1]))


@case(e.FittedValueError, "vs", r"coef has shape \(2,\)")
def slopes_of_fewer_classes(f):
    f.replace_array("coef_", [1.0, 2.0])


@case(e.FittedValueError, "ms", r"shape \(3, 4\)")
def matrix_that_is_not_square(f):
    f.replace_array("coef_", np.ones((3, 4)))


@case(e.HeaderFieldError, "vs", "announced")
def array_announced_as_something_else(f):
    f.part()["fitted"]["coef_"] = "step function"


@case(e.FittedValueError, "ir-ovr", "unknown form")
def map_of_unknown_form(f):
    f.put("forms", [0, 0, 99])


@case(e.FittedValueError, "ir-ovr")
def map_of_another_form(f):
    f.put("forms", [0, 0, 3])


@case(e.FittedValueError, "ir-ovr", "fill")
def lengths_that_overflow(f):
    lengths = f.array("lengths")
    lengths[:2] = 2**63 - 1
    f.put("lengths", lengths)


@case(e.FittedValueError, "ir-ovr")
def length_that_is_negative(f):
    lengths = f.array("lengths")
    lengths[0] = -1
    f.put("lengths", lengths)


@case(e.FittedValueError, "ir-ovr", "increase")
def curve_that_decreases(f):
    n = f.array("lengths")[0]
    numbers = f.array("numbers")
    numbers[:n] = numbers[:n][::-1]
    f.put("numbers", numbers)


@case(e.FittedValueError, "ir-ovr", "unit square")
def curve_outside_the_unit_square(f):
    numbers = f.array("numbers")
    numbers[-1] = 2.0
    f.put("numbers", numbers)


@case(e.FittedValueError, "ir-ovr", "x and y must be 1-D, alike")
def curve_of_two_lengths(f):
    f.replace_array("lengths", [3, 2] * 3)
    f.replace_array("numbers", [0.0, 0.5, 1.0, 0.0, 1.0] * 3)


@case(e.FittedValueError, "ir-ovr", "steep")
def curve_of_infinite_slope(f):
    f.replace_array("lengths", [2] * 6)
    f.replace_array("numbers", [0.0, 1e-310, 0.0, 1.0] * 3)


@case(e.FittedValueError, "ir-ovr", "does not take rows of 3")
def fewer_curves_than_classes(f):
    f.replace_array("forms", [0, 0])
    f.replace_array("lengths", [2] * 4)
    f.replace_array("numbers", [0.0, 1.0] * 4)


@case(e.FittedValueError, "beta-ovr")
def slope_of_a_beta_map_negative(f):
    numbers = f.array("numbers")
    numbers[0] = -1.0
    f.put("numbers", numbers)


@case(e.FittedValueError, "platt-ovr", "logarithms")
def bound_of_a_logarithm_zero(f):
    numbers = f.array("numbers")
    numbers[2] = 0.0
    f.put("numbers", numbers)


@case(e.FittedValueError, "bbq-ovr", "whole")
def number_of_bins_nan(f):
    numbers, lengths = f.array("numbers"), f.array("lengths")
    numbers[lengths[:3].sum()] = np.nan
    f.put("numbers", numbers)


@case(e.FittedValueError, "scw", "curves where groups")
def group_without_a_map(f):
    groups = f.array("groups_")
    groups[0] = 7
    f.put("groups_", groups)


@case(e.FittedValueError, "m2b-hb", "3 curves where")
def top_label_maps_of_too_few_classes(f):
    f.part()["parameters"]["per_class"] = False


@case(e.FittedValueError, "spline", "one more")
def slopes_that_are_too_few(f):
    f.replace_array("slopes_", f.array("slopes_")[1:])


@case(e.FittedValueError, "spline", "increase")
def knots_that_do_not_increase(f):
    f.put("knots_", f.array("knots_")[::-1])


@case(e.FittedValueError, "spline", "overflow")
def slopes_that_overflow(f):
    f.put("slopes_", f.array("slopes_") * 0 + 1e303)
    f.put("knots_", np.linspace(-1e90, 0, len(f.array("knots_"))))


@case(e.FittedValueError, "spline", "outside")
def slope_of_a_spline_negative(f):
    f.put("slopes_", f.array("slopes_") * -1)


@case(e.FittedValueError, "structured", "scale times zero_logit")
def scale_that_overflows(f):
    f.part()["fitted"] |= {"scale_": 1e300, "zero_logit_": -1e149}


@case(e.FittedValueError, "structured", "coef times scale")
def coefficients_that_overflow(f):
    f.part()["fitted"] |= {"scale_": 1e300}
    f.part()["parameters"] |= {"bound": 0.0}
    f.put("coef_", np.full((3, 3), 1e99))


@case(e.FittedValueError, "structured", "shape")
def matrix_of_three_dimensions(f):
    f.replace_array("coef_", np.ones((3, 3, 3)))


@case(e.FittedValueError, "structured", "coef times scale")
def logits_whose_mean_overflows(f):
    f.part()["fitted"] |= {"scale_": 1e300, "zero_logit_": -9e5}
    f.part()["parameters"] |= {"bound": 0.0}
    f.put("coef_", np.zeros((3, 3)))
