"""Builders of broken and malicious model files, independent of the code that reads them."""

from hostile_files import fit_cases, frame_cases, map_cases

CASES = [
    (name.replace(" ", "_"), method, change, rule, match)
    for table in (*frame_cases.TABLES, *fit_cases.TABLES, *map_cases.TABLES)
    for (rule, method), cases in table.items()
    for name, change, match in cases
]
"""(name, method, change, rule, match): ``change`` breaks the ``Frame`` of a file of ``method``."""
