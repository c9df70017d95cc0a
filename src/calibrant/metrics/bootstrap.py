"""Every metric of ``evaluate`` on resampled rows, in a few passes over the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.kernels import metric_resample
from calibrant.metrics.calibration_error import bin_edges, threshold_of, uniform_bins
from calibrant.metrics.kernel_density import N_STEPS, bandwidth_rule, density_error
from calibrant.metrics.predictions import whole_masses
from calibrant.metrics.scores import chunk_losses, chunk_squares

if TYPE_CHECKING:
    from calibrant.maps.base import Floats
    from calibrant.metrics.predictions import Predictions
    from calibrant.metrics.resampling import Resamples


def bootstrap(predictions: Predictions, resamples: Resamples, n_bins: int) -> dict[str, Floats]:
    """Return each metric, by its name, on each resample.

    Rows are drawn with their weights. Sums are plain doubles here: draws are random anyway.
    """
    bytes_each = 8 * (predictions.n_classes * n_bins + 2 * (N_STEPS + 1))
    parts = [
        _bootstrap_block(predictions, resamples, block, n_bins)
        for block in resamples.blocks(bytes_each)
    ]
    replicates = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    replicates["thresholded_ece"] = _bootstrap_thresholded(predictions, resamples, n_bins)
    return replicates


def _bootstrap_block(
    predictions: Predictions, resamples: Resamples, block: range, n_bins: int
) -> dict[str, Floats]:
    row_sums = np.zeros((len(block), 6))
    gaps = np.zeros((len(block), n_bins))
    class_gaps = np.zeros((len(block), predictions.n_classes, n_bins))
    grid = np.zeros((len(block), N_STEPS + 1, 2))
    edges = bin_edges(n_bins)
    for c, chunk in enumerate(predictions.chunks()):
        confidence, hits = chunk.top_labels()
        losses, squares = chunk_losses(chunk), chunk_squares(chunk)
        bins, cells = uniform_bins(confidence, edges), uniform_bins(chunk.rows, edges)
        for at, r in enumerate(block):
            mass = resamples.counts(r, c) * chunk.weight
            metric_resample.add_row_draws(
                mass, confidence, hits, losses, squares, bins, row_sums[at], gaps[at], grid[at]
            )
            metric_resample.add_class_gaps(chunk.rows, cells, mass, class_gaps[at])
            metric_resample.subtract_labels(chunk.class_index, cells, mass, class_gaps[at])
    weight = row_sums[:, 0]
    densities = [
        density_error(nodes, bandwidth_rule(sums[0] * predictions.unit, sums[1], sums[4], sums[5]))
        for sums, nodes in zip(row_sums, grid, strict=True)
    ]
    class_error = np.abs(class_gaps).sum(axis=(1, 2)) / predictions.n_classes
    return {
        "accuracy": row_sums[:, 1] / weight,
        "negative_log_likelihood": row_sums[:, 2] / weight,
        "brier_score": row_sums[:, 3] / weight,
        "confidence_ece": np.abs(gaps).sum(axis=1) / weight,
        "classwise_ece": class_error / weight,
        "kernel_density_ece": np.array(densities),
    }


def _bootstrap_thresholded(predictions: Predictions, resamples: Resamples, n_bins: int) -> Floats:
    """TECE of each resample: cells are sorted once, bins of equal mass move with the draws."""
    mass = None
    if predictions.weight is not None:
        # A draw can have the largest weight, at most 1, in each of its rows.
        repeats = 2.0 * n_bins * predictions.n_rows / float(predictions.weight.sum())
        mass = whole_masses(predictions.weight, repeats)
    total = np.zeros(resamples.n_resamples)
    n_present = np.zeros(resamples.n_resamples)
    for cells in predictions.cells_by_class(threshold_of(predictions.n_classes)):
        by_class = np.empty(len(cells.classes))
        hits = predictions.class_index[cells.row_of] == np.repeat(
            cells.classes, np.diff(cells.starts)
        )
        for r in range(resamples.n_resamples):
            drawn = resamples.all_counts(r)
            if mass is not None:
                drawn *= mass
            metric_resample.resampled_mass_errors(
                cells.values, cells.row_of, hits, cells.starts, drawn, n_bins, by_class
            )
            present = by_class >= 0.0
            total[r] += by_class[present].sum()
            n_present[r] += np.count_nonzero(present)
    return total / n_present
