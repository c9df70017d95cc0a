"""The specification is complete."""

from pathlib import Path

from calibrant._maps.logits import MAX_KNOTS
from calibrant.model_file import _format as frame

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "model-files.md"


def test_the_frame_and_the_limits_are_those_of_the_code():
    text = PAGE.read_text()
    told = [
        frame.MAGIC.hex(" ").upper(),
        f"version {frame.MAJOR}.{frame.MINOR}",
        f"{frame.MAX_FILE // 2**30} GiB",
        f"{frame.MAX_HEADER // 2**20} MiB",
        f"| arrays | {frame.MAX_ARRAYS};",
        f"2 to {frame.MAX_CLASSES:,}",
        f"{frame.MAX_LABEL:,} bytes",
        f"{frame.MAX_LABEL_TABLE // 2**20} MiB",
        f"nested {frame.MAX_NESTING} deep",
        f"| binary maps (one-vs-rest, sCW, M2B) | {frame.MAX_MAPS:,} |",
        f"| cells of one row | {frame.MAX_CELLS:,};",
        f"| knots of a spline | {MAX_KNOTS:,} |",
    ]
    assert [words for words in told if words not in text] == []
