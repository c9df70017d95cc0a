"""HDF5 files of CalArena: what is read, and what is refused or left alone."""

import h5py
import numpy as np
import pytest

from calibrant.errors import PredictionFileError
from calibrant.study._files import Experiment, find_experiments, read_experiment
from study.hdf5_files import write_benchmark, write_group


def test_every_group_is_a_classifier(tmp_path):
    path = tmp_path / "toy-multiclass.h5"
    arrays = write_benchmark(path, {"toy/net": {}, "toy/a b": {"n_classes": 5}, "more/net": {}})
    found, skipped = find_experiments(path)
    assert skipped == {}
    assert [(one.dataset, one.model) for one in found] == [
        ("more", "net"),
        ("toy", "a b"),
        ("toy", "net"),
    ]
    assert found[1] == Experiment("toy", "a b", 80, 240, 5, is_binary=False)
    part = read_experiment(path, "toy", "a b", "test")
    np.testing.assert_array_equal(part.scores, arrays["toy/a b"]["probas_test"])
    np.testing.assert_array_equal(part.labels, arrays["toy/a b"]["labels_test"])
    assert part.kind == "probabilities"


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_column_is_the_second_of_two_classes(tmp_path, shape):
    path = tmp_path / "toy-binary.h5"
    rows = np.array([0.25, 1.0, 0.0], dtype=np.float32)
    same = {f"probas_{part}": rows.reshape(shape) for part in ("cal", "test")}
    labels = {f"labels_{part}": np.array([0, 1, 0]) for part in ("cal", "test")}
    write_benchmark(path, {"toy/net": same | labels})
    (one,), _ = find_experiments(path)
    assert one == Experiment("toy", "net", 3, 3, 2, is_binary=True)
    part = read_experiment(path, "toy", "net", "val")
    assert part.scores.tolist() == [[0.75, 0.25], [0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probas_test": None}, "no array 'probas_test'"),
        ({"labels_cal": None}, "no array 'labels_cal'"),
        (
            {"labels_cal": np.zeros(3, dtype=np.int32)},
            "probas_cal has 80 rows, but labels_cal has 3",
        ),
        ({"labels_cal": np.zeros((80, 2))}, r"labels_cal has shape \(80, 2\)"),
        ({"probas_test": np.zeros((240, 4))}, r"probas_test has \(240, 4\)"),
        ({"probas_cal": np.zeros((80, 3, 1))}, "1 or 2 dimensions"),
        ({"probas_cal": np.array([b"a"] * 80)}, "dtype"),
        ({"probas_cal": np.zeros((80, 0))}, r"\(80, 0\)"),
    ],
)
def test_groups_of_another_kind_are_skipped_with_a_reason(tmp_path, change, message):
    path = tmp_path / "toy.h5"
    write_benchmark(path, {"toy/bad": change})
    found, skipped = find_experiments(path)
    assert found == []
    with pytest.raises(PredictionFileError, match=message):
        raise PredictionFileError(skipped["toy/bad"])


def test_links_to_other_files_are_not_followed(tmp_path):
    """A stranger's file must not read what is elsewhere on this machine."""
    write_benchmark(tmp_path / "secret.h5", {"toy/net": {}})
    with h5py.File(tmp_path / "toy.h5", "w") as file:
        write_group(file, "own/net")
        file["toy"] = h5py.ExternalLink("secret.h5", "/toy")
        file["own/soft"] = h5py.SoftLink("/own/net")
        write_group(file, "own/linked", probas_cal=None)
        file["own/linked/probas_cal"] = h5py.ExternalLink("secret.h5", "/toy/net/probas_cal")
        write_group(file, "own/virtual", probas_cal=None)
        layout = h5py.VirtualLayout((80, 3), np.float32)
        layout[:] = h5py.VirtualSource("secret.h5", "/toy/net/probas_cal", (80, 3))
        file["own/virtual"].create_virtual_dataset("probas_cal", layout)
        write_group(file, "own/outside", probas_cal=None)
        elsewhere = [("secret.h5", 0, 80 * 3 * 4)]
        file["own/outside"].create_dataset("probas_cal", (80, 3), np.float32, external=elsewhere)
    found, skipped = find_experiments(tmp_path / "toy.h5")
    assert [(one.dataset, one.model) for one in found] == [("own", "net")]
    assert sorted(skipped) == ["own/linked", "own/outside", "own/virtual"]
    with pytest.raises(PredictionFileError, match="toy/net does not exist"):
        read_experiment(tmp_path / "toy.h5", "toy", "net", "val")
