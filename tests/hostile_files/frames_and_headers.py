"""Broken frames and headers."""

from __future__ import annotations

import json

from calibrant import errors as e
from hostile_files.registry import case

# The frame.


@case(e.MagicError)
def wrong_magic(f):
    f.magic = b"\x89CLBR\n\x1a\x1a"


@case(e.HeaderLengthError)
def header_of_length_zero(f):
    f.length = 0


@case(e.HeaderLengthError)
def header_of_four_gigabytes(f):
    f.length = 2**32 - 1


@case(e.HeaderLengthError)
def header_not_aligned(f):
    f.length = len(f.text()) - 1


@case(e.HeaderLengthError)
def header_above_the_limit(f):
    f.header["library"] = "x" * (16 * 2**20)


@case(e.TruncatedFileError)
def header_longer_than_the_file(f):
    f.length = len(f.text()) + len(f.data) + 8


@case(e.ArrayLayoutError)
def header_that_reaches_into_the_data(f):
    f.header["library"] = "calibrant 0"
    f.length = len(f.text()) + 8
    f.data = b" " * 8 + f.data[8:]


@case(e.FormatVersionError, match=r"format 2\.7 and was written by calibrant 9\.8\.7")
def newer_major(f):
    f.major, f.minor = 2, 7
    f.header["library"] = "calibrant 9.8.7"


@case(e.FormatVersionError, match="an unknown version")
def newer_major_with_another_header(f):
    f.major, f.header = 3, b"\xff" * 64


@case(e.FormatVersionError)
def major_zero(f):
    f.major = 0


@case(e.FeatureError, match="'quantum'.*calibrant 9")
def unknown_required_feature(f):
    f.header |= {"requires": ["quantum"], "library": "calibrant 9"}


@case(e.FeatureError)
def required_feature_that_is_no_text(f):
    f.header["requires"] = [["quantum"]]


# The header's syntax.


@case(e.HeaderSyntaxError, match="UTF-8")
def header_not_utf_8(f):
    f.header = json.dumps(f.header).encode().replace(b"calibrant", b"calibran\xff")


@case(e.HeaderSyntaxError)
def header_in_utf_16(f):
    f.header = json.dumps(f.header).encode("utf-16")


@case(e.HeaderSyntaxError, match="not JSON")
def header_cut_off(f):
    f.header = json.dumps(f.header).encode()[:-1]


@case(e.HeaderSyntaxError, match="not JSON")
def header_with_more_behind_it(f):
    f.header = json.dumps(f.header).encode() + b"{}"


@case(e.HeaderSyntaxError, match="object")
def header_that_is_a_list(f):
    f.header = [f.header]


@case(e.HeaderSyntaxError, match="8 deep")
def header_nested_deeply(f):
    f.header["extra"] = "@"
    f.header = json.dumps(f.header).encode().replace(b'"@"', b"[" * 10_000 + b"]" * 10_000)


@case(e.HeaderSyntaxError, match="8 deep")
def header_nested_nine_deep(f):
    f.header["extra"] = [[[[[[[[]]]]]]]]


@case(e.HeaderSyntaxError, match="values")
def header_with_a_million_lists(f):
    f.header["extra"] = [[]] * 1_000_000


@case(e.HeaderSyntaxError, match="values")
def header_with_a_million_numbers(f):
    f.header["extra"] = [0] * 1_000_000


@case(e.HeaderSyntaxError, match="strings")
def header_with_three_million_strings(f):
    f.header["extra"] = [""] * 3_000_000


@case(e.HeaderSyntaxError, match="key twice")
def key_twice(f):
    f.header = json.dumps(f.header).encode()[:-1] + b', "requires": []}'


@case(e.HeaderSyntaxError, match="key twice")
def key_twice_inside(f):
    f.header = json.dumps(f.header).encode().replace(b'"method"', b'"method": "ts", "method"')


@case(e.HeaderSyntaxError, match="NaN")
def nan_literal(f):
    f.part()["fitted"]["zero_logit_"] = float("nan")


@case(e.HeaderSyntaxError, match="-Infinity")
def infinity_literal(f):
    f.part()["fitted"]["zero_logit_"] = float("-inf")


@case(e.HeaderSyntaxError, match="no float64")
def float_that_overflows(f):
    f.part()["fitted"]["zero_logit_"] = "@"
    f.header = json.dumps(f.header).encode().replace(b'"@"', b"-1e999")


@case(e.HeaderSyntaxError, match="no float64")
def float_of_a_million_digits(f):
    f.part()["fitted"]["zero_logit_"] = "@"
    f.header = json.dumps(f.header).encode().replace(b'"@"', b"-30." + b"1" * 1_000_000)


@case(e.HeaderSyntaxError, match="no int64")
def integer_of_5000_digits(f):
    f.header["extra"] = "@"
    f.header = json.dumps(f.header).encode().replace(b'"@"', b"9" * 5000)


@case(e.HeaderSyntaxError, match="no int64")
def integer_of_65_bits(f):
    f.header["extra"] = 2**64


@case(e.HeaderSyntaxError, match="not Unicode")
def half_a_surrogate_pair(f):
    f.part()["fitted"]["solver_report_"]["solver"] = "\ud800"


# The header's fields.


@case(e.HeaderFieldError, match="no field 'parts'")
def field_missing(f):
    del f.header["parts"]


@case(e.HeaderFieldError, match="unknown field 'code'")
def field_unknown(f):
    f.header["code"] = "import os"


@case(e.HeaderFieldError, match="unknown field 'x'")
def field_unknown_in_a_part(f):
    f.part()["x"] = 1


@case(e.HeaderFieldError, match="unknown field 'x'")
def field_unknown_in_a_report(f):
    f.part()["fitted"]["solver_report_"]["x"] = 1


@case(e.HeaderFieldError, match="list")
def field_of_the_wrong_type(f):
    f.header["parts"] = {}


@case(e.HeaderFieldError)
def part_that_is_no_object(f):
    f.header["parts"] = [1]


@case(e.HeaderFieldError, match="library")
def library_with_escape_codes(f):
    f.header["library"] = "\x1b[2J"


@case(e.HeaderFieldError)
def library_missing(f):
    del f.header["library"]
