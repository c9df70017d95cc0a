"""``MonitorStatus``: what a monitor has found so far."""

from __future__ import annotations

import math
from typing import Any

from calibrant.metrics._result import Estimate, Result, doc, result


@result()
class MonitorStatus(Result):
    """What a monitor has found so far."""

    n_rows: int = doc("Labelled rows counted.")
    e_value: float = doc("Evidence against the probabilities now; infinite above 1e308.")
    log_e_value: float = doc("Its natural logarithm.")
    largest_log_e_value: float = doc("The largest so far, which is what an alarm goes by.")
    alarm: bool = doc("Whether the evidence has ever reached 1 / alpha.")
    alarm_row: int | None = doc("Number of rows counted when it first did.")
    changes: tuple[int, ...] = doc("Numbers of rows counted when the change detector alarmed.")
    detector: float = doc("Its sum now; it alarms at run_length.")
    accuracy: Estimate = doc("Of the rows counted, with an interval that holds at all times.")
    confidence: Estimate = doc("Mean of the largest probability, likewise.")
    gap: Estimate = doc("Accuracy minus confidence, likewise: 0 if the probabilities are right.")
    groups: dict[str, dict[str, Any]] = doc("By group: n_rows, log_e_value, threshold, alarm.")

    def metrics(self) -> dict[str, float]:
        """Return numbers by name, for MLflow, Prometheus or evidently."""
        found = {
            "rows": self.n_rows,
            "log_e_value": self.log_e_value,
            "largest_log_e_value": self.largest_log_e_value,
            "alarm": self.alarm,
            "changes": len(self.changes),
            "detector": self.detector,
        }
        for name in ("accuracy", "confidence", "gap"):
            value = getattr(self, name)
            found |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        for group, own in self.groups.items():
            found |= {f"log_e_value.{group}": own["log_e_value"], f"alarm.{group}": own["alarm"]}
        return {
            f"calibrant_{name}": float(value)
            for name, value in found.items()
            if math.isfinite(value)
        }
