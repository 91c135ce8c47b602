"""Estimates the remaining run time of jobs, and the error of the estimate, from what a scheduler
knows: the steps that a job reports, the estimate of its user, the work that it has done, and the
work of completed jobs. docs/schedulers/estimate-remaining-time.md compares these sources.

Times are in seconds. Work is measured in run time on one node. On k nodes a job does speed(k)
seconds of work per second, and none while it restarts. The Go package client/eta returns the same
numbers and reads the same states.
"""

import json
import math
from bisect import bisect_right, insort
from typing import Any, List, NamedTuple, Tuple

from elastalloc.values import integers, real

__all__ = ["Estimate", "Estimator", "speed"]

DEFAULT_USER_ERROR = math.log(2)  # error of a user's estimate without user_error: a factor of 2
UNKNOWN_ERROR = 3.0  # error of an estimate from completed jobs, chosen by simulation
MAX_ERROR = 5.0  # largest error that the service accepts
MAX_COMPLETED = 1000  # completed jobs that an Estimator remembers, the latest ones

MIN_ETA = 1.0
MAX_ETA = 10 * 365 * 24 * 3600.0
PSEUDO_REMAINING = 20 * 60.0  # remaining work before any job has completed
MIN_ERROR = 1e-9  # keeps an almost exact estimate in the range of float
# Weights of the prior in completed jobs: that estimates have no bias, that the bias does not depend
# on the length of the job, and that the error is as stated.
PRIOR_BIAS, PRIOR_SLOPE, PRIOR_SPREAD = 40.0, 20.0, 20.0
MIN_USER_ERROR = 0.1  # smallest stated error that the fit divides by
MAX_DEVIATIONS = 6.0  # largest number of standard deviations by which a job counts
DECAY = 1 - 1 / MAX_COMPLETED  # of the sums of the fit per completed job
MAX_SUM, MAX_LOG = 1e6, 50.0  # upper bounds of a sum of a fit, and of a logarithm of a time
TAIL = 3.0  # argument from which on a continued fraction is used for Mills' ratio


class Estimate(NamedTuple):
    """The estimate for a job in the terms of the API."""

    eta: float  # remaining run time on the nodes, 1 s to ten years
    nodes: int
    error: float  # standard deviation of ln(true / eta); 0 means exact
    # Work done divided by the user's estimate, 0 without an estimate. At 1 the estimate has run
    # out. From 2 on a person should look at the job.
    overrun: float
    work_done: float  # 0 to ten years

    def set_on(self, job) -> None:
        """Sets remaining_eta, eta_nodes, eta_error, work_done and overrun of a pb.Job."""
        job.remaining_eta.FromNanoseconds(round(self.eta * 1e9))
        job.work_done.FromNanoseconds(round(self.work_done * 1e9))
        job.eta_nodes, job.eta_error, job.overrun = self.nodes, self.error, self.overrun


class Estimator:
    """Makes estimates, and learns from completed jobs."""

    def __init__(self) -> None:
        self._completed: List[float] = []  # work of completed jobs, in the order of completion
        self._sorted: List[float] = []  # the same, ascending
        # State of a ridge regression of z = ln(true / estimate), in standard deviations as stated,
        # on u = ln(estimate): the number of completed jobs with an estimate, and the sums over them
        # of u, z, u^2, uz and z^2.
        self._fit = [0.0] * 6

    def estimate(
        self,
        *,
        steps_left: float = 0.0,
        seconds_per_step: float = 0.0,
        nodes: int = 1,
        user_estimate: float = 0.0,
        user_error: float = 0.0,
        work_done: float = 0.0,
    ) -> Estimate:
        """Returns the best estimate for a job. It uses the first of these that is known: the
        steps of the job, the estimate of its user, the work of completed jobs.

        seconds_per_step is the time per step on the given nodes, 0 if the job does not report it.
        user_estimate is the run time of the whole job on one node, as estimated by its user or
        measured in an earlier run, 0 if there is none. user_error is the standard deviation of
        ln(true / user_estimate), 0 for DEFAULT_USER_ERROR.
        """
        steps_left, seconds_per_step = real("steps_left", steps_left), real("seconds_per_step", seconds_per_step)
        user_estimate, user_error = real("user_estimate", user_estimate), real("user_error", user_error)
        bad: List[str] = []
        nodes = integers(bad, "nodes", nodes)
        if bad:
            raise ValueError(bad[0])
        done = min(max(real("work_done", work_done), 0.0), MAX_ETA)
        overrun = done / max(user_estimate, 1e-9) if user_estimate > 0 else 0.0
        remaining = steps_left * seconds_per_step
        if seconds_per_step > 0 and remaining >= 0:  # NaN is neither.
            return Estimate(_eta(remaining), max(nodes, 1), 0.0, overrun, done)
        if user_estimate > 0:
            median, error = _correct(self._fit, *_log_estimate(user_estimate, user_error))
            return Estimate(_eta(_mean_remaining(median, error, done)), 1, error, overrun, done)
        return Estimate(_eta(self._median_remaining(done)), 1, UNKNOWN_ERROR, overrun, done)

    def completed(
        self, work: float, *, user_estimate: float = 0.0, user_error: float = 0.0
    ) -> None:
        """Records a job that has completed or stopped for another reason: its work, and the error
        of its user's estimate. It ignores jobs without work."""
        work, user_estimate = real("work", work), real("user_estimate", user_estimate)
        user_error = real("user_error", user_error)
        if not work > 0:
            return
        if len(self._completed) == MAX_COMPLETED:
            self._sorted.remove(self._completed.pop(0))
        self._completed.append(min(work, MAX_ETA))
        insort(self._sorted, self._completed[-1])
        if user_estimate > 0:
            estimate = _log_estimate(user_estimate, user_error)
            self._fit = _add(self._fit, *estimate, max(self._completed[-1], MIN_ETA))

    def _median_remaining(self, done: float) -> float:
        """Returns the median remaining work of the completed jobs that had done more work than
        done, and of two pseudo-jobs."""
        left = [work - done for work in self._sorted[bisect_right(self._sorted, done) :]]
        pseudo = max(done, PSEUDO_REMAINING)
        left = sorted(left + [pseudo, 3 * pseudo])
        return (left[(len(left) - 1) // 2] + left[len(left) // 2]) / 2

    def to_json(self) -> str:
        """Returns the state: the work of completed jobs, and the errors of their estimates."""
        state = {"completed_seconds": self._completed}
        if self._fit[0]:
            state["user_estimates"] = self._fit
        return json.dumps(state)

    @classmethod
    def from_json(cls, text: str) -> "Estimator":
        """Restores a state, and keeps the latest MAX_COMPLETED jobs of it. Raises ValueError if
        the text is not a state."""
        try:
            state = json.loads(text)
        except RecursionError:
            raise ValueError("parse state of ETAs: it is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"parse state of ETAs: {error}") from None
        if not isinstance(state, dict) or not isinstance(state.get("completed_seconds"), list):
            raise ValueError(
                "parse state of ETAs: completed_seconds: is missing; must be a list of seconds"
            )
        if unknown := state.keys() - {"completed_seconds", "user_estimates"}:
            raise ValueError(f"parse state of ETAs: unknown field {min(unknown)!r}")
        for i, work in enumerate(state["completed_seconds"]):
            if type(work) not in (int, float) or not 0 < work <= MAX_ETA:
                raise ValueError(
                    f"parse state of ETAs: completed_seconds[{i}]: is {work!r}; "
                    f"must be greater than 0 and at most {MAX_ETA:g}"
                )
        estimator = cls()
        fit = state.get("user_estimates")
        if fit not in (None, []):
            if not _valid(fit):
                raise ValueError(
                    f"parse state of ETAs: user_estimates: is {fit!r}; must be a number of jobs, "
                    f"1 to {MAX_COMPLETED}, and 5 sums of at most {MAX_SUM:g}"
                )
            estimator._fit = [float(n) for n in fit]
        latest = state["completed_seconds"][-MAX_COMPLETED:]
        estimator._completed = [float(work) for work in latest]
        estimator._sorted = sorted(estimator._completed)
        return estimator


def _add(fit: List[float], median: float, sigma: float, seconds: float) -> List[float]:
    """Returns a fit with a further job that took the given seconds. median is the logarithm of its
    estimate, and sigma the stated error."""
    z = (math.log(seconds) - median) / max(sigma, MIN_USER_ERROR)
    z = min(max(z, -MAX_DEVIATIONS), MAX_DEVIATIONS)
    terms = (1, median, z, median * median, median * z, z * z)
    return [n * DECAY + term for n, term in zip(fit, terms)]


def _correct(fit: List[float], median: float, sigma: float) -> Tuple[float, float]:
    """Returns the median and error of an estimate, corrected by the errors of earlier ones."""
    n, u, z, uu, uz, zz = fit
    if n == 0:
        return median, sigma
    u, z = u / n, z / n
    uu, uz, zz = max(uu - n * u * u, 0.0), uz - n * u * z, max(zz - n * z * z, 0.0)
    slope, bias = uz / (uu + PRIOR_SLOPE), n * z / (n + PRIOR_BIAS)
    squares = max(zz - 2 * slope * uz + slope * slope * uu, 0.0) + n * (z - bias) * (z - bias)
    spread = math.sqrt((squares + PRIOR_SPREAD) / (n + PRIOR_SPREAD))
    # A state that _add did not write may have any line.
    corrected = min(max(median + sigma * (bias + slope * (median - u)), -MAX_LOG), MAX_LOG)
    return corrected, min(max(sigma * spread, MIN_ERROR), MAX_ERROR)


def _valid(fit: Any) -> bool:
    """Reports whether a value is the fit of one job or more."""
    if not isinstance(fit, list) or len(fit) != 6:
        return False
    valid = all(type(n) in (int, float) and abs(n) <= MAX_SUM for n in fit)
    return valid and 1 <= fit[0] <= MAX_COMPLETED


def _log_estimate(estimate: float, error: float) -> Tuple[float, float]:
    """Returns the logarithm of a user's estimate, and its error."""
    error = error if error > 0 else DEFAULT_USER_ERROR
    return math.log(min(max(estimate, 1e-9), MAX_ETA)), min(max(error, MIN_ERROR), MAX_ERROR)


def _mean_remaining(median: float, s: float, x: float) -> float:
    """Returns the mean remaining work W - x of a job that has done the work x, if ln W is normal
    with the given median and the standard deviation s > 0, and W > x. With D = e^median and
    z = (ln x - median) / s the mean is D e^(s^2/2) Phi(s - z) / Phi(-z) - x."""
    z = (math.log(x) - median) / s if x > 0 else -math.inf
    if z <= TAIL:
        up, down = math.erfc((z - s) / math.sqrt(2)), math.erfc(z / math.sqrt(2))
        return math.exp(median + s * s / 2) * up / down - x
    # Phi(-z) underflows for large z. With Phi(-z) = phi(z) M(z) the densities cancel.
    return x * (_mills(z - s) / _mills(z) - 1)


def _mills(z: float) -> float:
    """Returns Mills' ratio of the normal distribution, Phi(-z) / phi(z), for z > -38."""
    if z <= TAIL:
        return math.sqrt(math.pi / 2) * math.exp(z * z / 2) * math.erfc(z / math.sqrt(2))
    rest = z  # Laplace's 1/(z + 1/(z + 2/(z + 3/(z + ...))))
    for n in range(60, 0, -1):
        rest = z + n / rest
    return 1 / rest


def speed(nodes: int, efficiency: float = 0.8) -> float:
    """Returns the speed on the given number of nodes relative to one node, k * e^log2(k). Each
    doubling multiplies the speed by twice the efficiency e."""
    return nodes * efficiency ** math.log2(nodes)


def _eta(seconds: float) -> float:
    """Returns seconds as an ETA, in whole nanoseconds."""
    return round(min(seconds, MAX_ETA), 9) if seconds >= MIN_ETA else MIN_ETA
