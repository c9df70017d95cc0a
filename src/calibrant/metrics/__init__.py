"""Scores, calibration errors, significance tests, intervals."""
