"""Builders of broken and malicious model files, independent of the code that reads them."""

from hostile_files import (
    arrays_and_maps,
    classes_and_parts,
    frames_and_headers,
    sizes_and_products,
)
from hostile_files.registry import CASES

__all__ = [
    "CASES",
    "arrays_and_maps",
    "classes_and_parts",
    "frames_and_headers",
    "sizes_and_products",
]
