"""The look of the gallery's pictures, for sphinx-gallery: that of the package's own."""

from __future__ import annotations

import matplotlib as mpl

from calibrant import _drawing


def set_style(_conf, _path):
    """Set it before each script, whose code says nothing of it."""
    mpl.rcParams.update(
        {
            "axes.axisbelow": True,
            "axes.grid": True,
            "axes.prop_cycle": mpl.cycler(color=_drawing.PALETTE),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.titleweight": "bold",
            "grid.color": _drawing.GRID,
            "grid.linewidth": 0.6,
        }
    )
