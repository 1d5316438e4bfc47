"""The split of an error: an identity to rounding, and what it expects of least squares."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.errors import InputError
from attnlab.statistics import polynomial_smoother, split_log_loss, split_squared_error


def test_by_hand() -> None:
    # Two learners say 1 and 3; the target is 5 or 7. Errors: 16, 36, 4, 16.
    split = split_squared_error([[1.0], [3.0]], [[5.0], [7.0]])
    assert (split.error, split.noise, split.bias, split.variance) == (18, 1, 16, 1)
    assert split.rest == 0


@pytest.mark.parametrize("shape", [(1, 1), (2, 7), (30, 4)])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_the_parts_add_up_to_rounding(shape: tuple[int, int], offset: float) -> None:
    rng = np.random.default_rng(0)
    predictions, targets = rng.normal(size=(shape[0], 5, 3)) + offset, rng.normal(size=(shape[1], 5, 3))
    split = split_squared_error(predictions, targets)
    assert abs(split.rest) <= 1e-12 * split.error
    pairs = np.square(targets[None] - predictions[:, None]).mean()  # every learner with every draw
    assert split.error == pytest.approx(pairs)


def test_one_learner_has_no_variance_and_one_target_no_noise() -> None:
    split = split_squared_error([[1.0, 2.0]], [[0.0, 0.0]])
    assert (split.noise, split.variance, split.bias) == (0, 0, 2.5)


def test_log_loss_by_hand() -> None:
    # Probabilities (¼, ¾) and (¾, ¼): their normalised geometric mean is (½, ½).
    split = split_log_loss(np.log([[[0.25, 0.75]], [[0.75, 0.25]]]), [0])
    assert split.bias == pytest.approx(np.log(2))
    assert split.error == pytest.approx(-0.5 * np.log(0.25 * 0.75))
    assert split.variance == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
    assert split.rest == pytest.approx(0, abs=1e-15)


def test_the_log_loss_of_an_ensemble_is_never_worse_than_its_members() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(6, 40, 9)) * 3
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    split = split_log_loss(logs, rng.integers(9, size=40))
    assert abs(split.rest) < 1e-12
    assert split.variance > 0
    assert split.bias < split.error


@pytest.mark.parametrize("degree", [0, 1, 4, 11])
def test_least_squares_has_the_variance_and_the_bias_that_its_matrix_says(degree: int) -> None:
    x = np.linspace(-3, 7, 12)
    smoother = polynomial_smoother(x, degree)
    assert np.trace(smoother) == pytest.approx(degree + 1)
    truth = np.sin(x)
    np.testing.assert_allclose(smoother @ truth, np.polynomial.Polynomial.fit(x, truth, degree)(x), atol=1e-9)
    rng = np.random.default_rng(2)
    fits = (truth + 0.3 * rng.normal(size=(4000, 12))) @ smoother
    split = split_squared_error(fits, truth[None])
    derived = 0.09 * (degree + 1) / 12
    assert split.variance == pytest.approx(derived, rel=0.1)
    expected = np.square(truth - smoother @ truth).mean()
    assert split.bias == pytest.approx(expected, rel=0.1, abs=1e-3)


def test_a_single_point_has_a_constant() -> None:
    np.testing.assert_allclose(polynomial_smoother([2.0, 2.0], 0), 0.5)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="same shape after the first axis"):
        split_squared_error([[1.0]], [[1.0, 2.0]])
    with pytest.raises(InputError, match="empty"):
        split_squared_error([], [[1.0]])
    with pytest.raises(InputError, match="not all finite"):
        split_squared_error([[np.nan]], [[1.0]])
    with pytest.raises(InputError, match="do not add up to 1"):
        split_log_loss([[[0.0, 0.0]]], [0])
    with pytest.raises(InputError, match="from 0 to 1"):
        split_log_loss(np.log([[[0.5, 0.5]]]), [2])
    with pytest.raises(InputError, match="do not fit"):
        split_log_loss(np.log([[0.5, 0.5]]), [0])
    with pytest.raises(InputError, match="degree from 0 to 2"):
        polynomial_smoother([0.0, 1.0, 2.0, 2.0], 3)
    with pytest.raises(InputError, match="no list"):
        polynomial_smoother([[0.0]], 0)
