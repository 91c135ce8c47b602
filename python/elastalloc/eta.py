"""Makes the remaining ETAs of a snapshot, and says how far off they may be, of what a
scheduler has: the steps that a job reports, what its user told, the work it has done, and
what the jobs before it took. docs/schedulers/estimate-remaining-time.md says what each is worth.

Times are in seconds. Work is counted in run time on one node: on k nodes a job does speed(k)
seconds of it a second, and nothing while it restarts. The Go package client/eta gives the
same numbers and reads the same states.
"""

import json
import math
from bisect import bisect_right, insort
from typing import Any, List, NamedTuple, Tuple

__all__ = ["Estimate", "Estimator", "speed"]

DEFAULT_TOLD_ERROR = math.log(2)  # of what was told where nothing says how far off: a factor of 2
UNKNOWN_ERROR = 3.0  # of an estimate from ended jobs, chosen by simulation
MAX_ERROR = 5.0  # the largest that the service takes
MAX_ENDED = 1000  # ended jobs that an Estimator remembers, the latest

LEAST = 1.0  # a job that has outrun what was told is about to end
MOST = 10 * 365 * 24 * 3600.0  # beyond is as good as without an end
PSEUDO_LEFT = 20 * 60.0  # left of a job before any has ended
LEAST_ERROR = 1e-9  # keeps what is nearly exact within what can be calculated with
# What doubt is worth in ended jobs: that what is told errs in the mean, that it errs otherwise
# for long jobs than for short ones, and that it errs by more or less than said.
DOUBT_BIAS, DOUBT_SLOPE, DOUBT_SPREAD = 40.0, 20.0, 20.0
LEAST_OFF = 0.1  # the least that counts as the error told
FARTHEST = 6.0  # how many of that a job counts as off at most
KEPT = 1 - 1 / MAX_ENDED  # of the jobs before one
MOST_SUM, MOST_LOG = 1e6, 50.0  # beyond every sum of a fit, and every logarithm of a time
TAIL = 3.0  # from where on a continued fraction is used for Mills' ratio


class Estimate(NamedTuple):
    """What to tell of a job, in the terms of the API."""

    eta: float  # run time left on the nodes: at least a second, at most ten years
    nodes: int
    error: float  # the standard deviation of ln(true / eta); 0 is exact
    # The work done as a share of what was told, 0 where it was not: from 1 on that has run out,
    # and from 2 on twice, which a person should look at.
    overrun: float
    work_done: float  # that of the job, at least 0, at most ten years

    def tell(self, job) -> None:
        """Sets remaining_eta, eta_nodes, eta_error, work_done and overrun of a pb.Job."""
        job.remaining_eta.FromNanoseconds(round(self.eta * 1e9))
        job.work_done.FromNanoseconds(round(self.work_done * 1e9))
        job.eta_nodes, job.eta_error, job.overrun = self.nodes, self.error, self.overrun


class Estimator:
    """Makes estimates, and learns from the jobs that end."""

    def __init__(self) -> None:
        self._ended: List[float] = []  # the work of ended jobs, in the order of their ends
        self._sorted: List[float] = []  # the same, ascending
        # How wrong what is told turned out to be: the number of ended jobs that were told one,
        # and sums over them of u, z, u^2, uz and z^2, for a ridge regression of z on u. There
        # u = ln(told), and z = ln(took / told) in standard deviations told.
        self._fit = [0.0] * 6

    def estimate(
        self,
        *,
        steps_left: float = 0.0,
        seconds_per_step: float = 0.0,
        nodes: int = 1,
        told: float = 0.0,
        told_error: float = 0.0,
        work_done: float = 0.0,
    ) -> Estimate:
        """Returns the best estimate that what is known of a job allows: by its steps, else
        by what was told, else by the jobs that have ended.

        seconds_per_step is what a step takes on the given nodes, 0 for a job that does not
        report it. told is what the whole job was said to take on one node, by its user or by
        an earlier run, 0 where it was not said, and told_error the standard deviation of
        ln(true / told), 0 for DEFAULT_TOLD_ERROR.
        """
        done = min(max(work_done, 0.0), MOST)
        overrun = done / max(told, 1e-9) if told > 0 else 0.0
        left = steps_left * seconds_per_step
        if seconds_per_step > 0 and left >= 0:  # NaN is neither.
            return Estimate(_eta(left), max(nodes, 1), 0.0, overrun, done)
        if told > 0:
            median, error = _believed(self._fit, *_told(told, told_error))
            return Estimate(_eta(_posterior(median, error, done)), 1, error, overrun, done)
        return Estimate(_eta(self._left(done)), 1, UNKNOWN_ERROR, overrun, done)

    def ended(self, work: float, *, told: float = 0.0, told_error: float = 0.0) -> None:
        """Notes that a job has ended, for whatever reason, with the given work done, and how
        wrong what was told of it was. Jobs without work are of no use and not noted."""
        if not work > 0:
            return
        if len(self._ended) == MAX_ENDED:
            self._sorted.remove(self._ended.pop(0))
        self._ended.append(min(work, MOST))
        insort(self._sorted, self._ended[-1])
        if told > 0:
            self._fit = _add(self._fit, *_told(told, told_error), max(self._ended[-1], LEAST))

    def _left(self, done: float) -> float:
        """Returns the median of what was left of the ended jobs that had come as far as done,
        and of two pseudo-jobs, which stand for all experience before any."""
        left = [work - done for work in self._sorted[bisect_right(self._sorted, done) :]]
        pseudo = max(done, PSEUDO_LEFT)
        left = sorted(left + [pseudo, 3 * pseudo])
        return (left[(len(left) - 1) // 2] + left[len(left) // 2]) / 2

    def to_json(self) -> str:
        """Returns the state: what the jobs that ended took, and how wrong they were told."""
        state = {"ended_seconds": self._ended}
        if self._fit[0]:
            state["told"] = self._fit
        return json.dumps(state)

    @classmethod
    def from_json(cls, text: str) -> "Estimator":
        """Restores a state. Of more than MAX_ENDED jobs it keeps the latest. A text that is no
        state raises ValueError, which says why."""
        try:
            state = json.loads(text)
        except RecursionError:
            raise ValueError("parse state of ETAs: it is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"parse state of ETAs: {error}") from None
        if not isinstance(state, dict) or not isinstance(state.get("ended_seconds"), list):
            raise ValueError("parse state of ETAs: ended_seconds is missing; want a list of seconds")
        if unknown := state.keys() - {"ended_seconds", "told"}:
            raise ValueError(f"parse state of ETAs: unknown field {min(unknown)!r}")
        for i, work in enumerate(state["ended_seconds"]):
            if type(work) not in (int, float) or not 0 < work <= MOST:
                raise ValueError(
                    f"parse state of ETAs: ended_seconds[{i}] is {work!r}; "
                    f"want more than 0 and at most {MOST:g}"
                )
        estimator = cls()
        told = state.get("told")
        if told not in (None, []):
            if not _sane(told):
                raise ValueError(
                    f"parse state of ETAs: told is {told!r}; "
                    f"want 1 to {MAX_ENDED} jobs and 5 sums of at most {MOST_SUM:g}"
                )
            estimator._fit = [float(n) for n in told]
        estimator._ended = [float(work) for work in state["ended_seconds"][-MAX_ENDED:]]
        estimator._sorted = sorted(estimator._ended)
        return estimator


def _add(fit: List[float], told: float, off: float, took: float) -> List[float]:
    """Returns a fit with a job that took so much, of which told was the logarithm."""
    z = min(max((math.log(took) - told) / max(off, LEAST_OFF), -FARTHEST), FARTHEST)
    return [n * KEPT + term for n, term in zip(fit, (1, told, z, told * told, told * z, z * z))]


def _believed(fit: List[float], told: float, off: float) -> Tuple[float, float]:
    """Returns what to believe of what was told, its logarithm and its error."""
    n, u, z, uu, uz, zz = fit
    if n == 0:
        return told, off
    u, z = u / n, z / n
    uu, uz, zz = max(uu - n * u * u, 0.0), uz - n * u * z, max(zz - n * z * z, 0.0)
    slope, bias = uz / (uu + DOUBT_SLOPE), n * z / (n + DOUBT_BIAS)
    squares = max(zz - 2 * slope * uz + slope * slope * uu, 0.0) + n * (z - bias) * (z - bias)
    spread = math.sqrt((squares + DOUBT_SPREAD) / (n + DOUBT_SPREAD))
    # A state that was not written by _add may have any line.
    median = min(max(told + off * (bias + slope * (told - u)), -MOST_LOG), MOST_LOG)
    return median, min(max(off * spread, LEAST_ERROR), MAX_ERROR)


def _sane(fit: Any) -> bool:
    """Reports whether a fit may be one, of a job or more."""
    if not isinstance(fit, list) or len(fit) != 6:
        return False
    sane = all(type(n) in (int, float) and abs(n) <= MOST_SUM for n in fit)
    return sane and 1 <= fit[0] <= MAX_ENDED


def _told(told: float, error: float) -> Tuple[float, float]:
    """Returns the logarithm of what was told and its error."""
    error = error if error > 0 else DEFAULT_TOLD_ERROR
    return math.log(min(max(told, 1e-9), MOST)), min(max(error, LEAST_ERROR), MAX_ERROR)


def _posterior(median: float, s: float, x: float) -> float:
    """Returns the mean of what is left, W - x, of a job that has done x: ln W is normal about
    median with the standard deviation s > 0, and W > x. With D = e^median and
    z = (ln x - median) / s that is D e^(s^2/2) Phi(s - z) / Phi(-z) - x."""
    z = (math.log(x) - median) / s if x > 0 else -math.inf
    if z <= TAIL:
        up, down = math.erfc((z - s) / math.sqrt(2)), math.erfc(z / math.sqrt(2))
        return math.exp(median + s * s / 2) * up / down - x
    # Far out Phi(-z) underflows. With Phi(-z) = phi(z) M(z) the densities cancel.
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
    """Returns the speed on the given nodes against one node, k * e^log2(k): each doubling
    multiplies it by twice the efficiency."""
    return nodes * efficiency ** math.log2(nodes)


def _eta(seconds: float) -> float:
    """Returns seconds as an ETA, in whole nanoseconds."""
    return round(min(seconds, MOST), 9) if seconds >= LEAST else LEAST
