"""The specification is complete."""

from pathlib import Path

from calibrant import errors
from calibrant.maps.logits import MAX_KNOTS
from calibrant.model_file import format as frame
from calibrant.model_file import limits

PAGE = Path(__file__).parents[2] / "docs" / "model-files.md"


def test_every_error_is_specified():
    text = PAGE.read_text()
    wanted = (errors.ModelFileError, errors.NewerFormatWarning)
    found = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, wanted)]
    assert len(found) > 10
    for kind in found:
        assert f"`{kind.__name__}`" in text


def test_the_frame_and_the_limits_are_those_of_the_code():
    text = PAGE.read_text()
    assert frame.MAGIC.hex(" ").upper() in text
    assert f"version {frame.MAJOR}.{frame.MINOR}" in text
    for limit in (limits.MAX_TEXTS, limits.MAX_VALUES, limits.MAX_CLASSES, limits.MAX_LABEL):
        assert f"{limit:,}" in text
    assert f"{limits.MAX_LABELS:,} numbers in all of them" in text
    assert f"| binary maps (one-vs-rest, sCW, M2B) | {limits.MAX_MAPS:,} in all |" in text
    assert f"| knots of a spline | {MAX_KNOTS:,} |" in text
    assert f"{limits.WORK_PER_BYTE} for each byte of the file, and {limits.SMALL_WORK:,}" in text
    assert f"each binary map {limits.WORK_OF_MAP}" in text
    small = limits.SMALL_MEMORY // 2**20
    assert f"at most {limits.MEMORY_PER_BYTE} times the file and {small} MiB" in text
    assert f"{limits.MAX_FILE // 2**30} GiB" in text
    assert f"{limits.MAX_HEADER // 2**20} MiB" in text
    assert f"{limits.MAX_LABEL_TABLE // 2**20} MiB" in text
    assert f"{limits.MAX_DEPTH} containers deep" in text
    assert f"{limits.MAX_PARTS}, nested {limits.MAX_NESTING} deep" in text
    assert f"| arrays | {limits.MAX_ARRAYS};" in text
