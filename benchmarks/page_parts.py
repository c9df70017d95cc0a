"""What the parts of the page of benchmarks share."""

import re
import textwrap

WIDTH = 104
GLUE = "\0"


def paragraphs(*parts):
    """Parts of a page, without empty ones; prose is broken into lines."""
    return "\n\n".join(_broken(part) for part in parts if part)


def _broken(part):
    if part.startswith(("#", "|", "-", "!")) or "\n" in part:
        return part
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", GLUE), part)  # code stays on a line
    lines = textwrap.fill(whole, WIDTH, break_long_words=False, break_on_hyphens=False)
    return lines.replace(GLUE, " ")


def factor(number):
    """A ratio in three digits."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def not_run(wanted, found, what="Not run here"):
    """Say what is missing of a whole run."""
    missing = [one for one in wanted if one not in found]
    return f"{what}: {', '.join(missing)}." if missing else ""
