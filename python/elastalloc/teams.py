"""Shares a pool fairly between teams over time: a team that used less than its share lately has a
higher weight. docs/schedulers/fairness-over-time.md describes when to use it. Times are in seconds.
The Go package client/teams returns the same factors and reads the same states."""

import json
import math
from typing import Dict, List, Mapping

from elastalloc.values import integers, real

__all__ = ["MAX_FACTOR", "MIN_FACTOR", "Usage"]

MIN_FACTOR, MAX_FACTOR = 0.25, 4.0  # limits of a factor


class Usage:
    """Records how much node time each team has used. Node time t seconds ago counts
    2 ** (-t / half_life).

    half_life is the time after which node time counts half. It must be greater than 0 and has no
    default. quotas are the quotas of the teams. Only their ratios matter, so they may be in any unit.
    A team without a quota has no share. exponent is the power to which a factor is raised.
    """

    def __init__(
        self, *, half_life: float, quotas: Mapping[str, float], exponent: float = 1.0
    ) -> None:
        half_life, exponent = real("half_life", half_life), real("exponent", exponent)
        quotas = {team: real(f"quotas[{team!r}]", quota) for team, quota in quotas.items()}
        if not 0 < half_life < math.inf:
            raise ValueError(f"half_life: is {half_life}; must be greater than 0 and finite")
        if not 0 < exponent < math.inf:
            raise ValueError(f"exponent: is {exponent}; must be greater than 0 and finite")
        for team, quota in sorted(quotas.items()):
            if not 0 <= quota < math.inf:
                raise ValueError(f"quotas[{team!r}]: is {quota}; must be at least 0 and finite")
        total = sum(quotas.values())
        if not 0 < total < math.inf:
            raise ValueError(f"quotas: their sum is {total}; must be greater than 0 and finite")
        self._half_life, self._exponent = half_life, exponent
        self._shares = {team: quota / total for team, quota in quotas.items()}
        self._at = 0  # of the last observe, in nanoseconds
        self._nodes: Dict[str, int] = {}  # used since then
        self._node_seconds: Dict[str, float] = {}  # decayed, until then

    def observe(self, now: float, nodes: Mapping[str, int]) -> None:
        """Records the number of nodes that the jobs of each team occupy from now on. Teams that are
        not listed occupy none. Call it whenever the nodes change, or at regular intervals. now is the
        time of a clock that continues over restarts of the scheduler, such as time.time()."""
        at = round(now * 1e9)
        kept = 2 ** (-max(0, at - self._at) / 1e9 / self._half_life)
        used = {team: seconds * kept for team, seconds in self._node_seconds.items()}
        for team, n in self._nodes.items():  # The integral of n 2^(-t / half_life) over the elapsed time.
            used[team] = used.get(team, 0.0) + n * self._half_life / math.log(2) * (1 - kept)
        bad: List[str] = []
        occupied = {team: integers(bad, f"nodes[{team!r}]", n) for team, n in nodes.items()}
        if bad:
            raise ValueError("\n".join(bad))
        self._at, self._nodes, self._node_seconds = at, occupied, used

    def factor(self, team: str) -> float:
        """Returns the factor, MIN_FACTOR to MAX_FACTOR, by which to multiply the weights of the jobs
        of a team:

            (share of the team in the quotas / share of the team in the node time) ** exponent

        It is 1 while no team has used node time. Otherwise, it is MIN_FACTOR for a team without a
        quota, and MAX_FACTOR for another team without node time.
        """
        share, used = self._shares.get(team, 0.0), self._node_seconds.get(team, 0.0)
        total = sum(self._node_seconds.values())
        if total == 0:
            return 1.0
        if share == 0:
            return MIN_FACTOR
        if used == 0:
            return MAX_FACTOR
        try:
            factor = (share * total / used) ** self._exponent
        except OverflowError:
            return MAX_FACTOR
        return min(max(factor, MIN_FACTOR), MAX_FACTOR)

    def to_json(self) -> str:
        """Returns the node time, to keep it over restarts of the scheduler. The configuration is not
        part of it."""
        state = {"at": self._at, "nodes": self._nodes, "node_seconds": self._node_seconds}
        return json.dumps(state)

    def restore(self, text: str) -> None:
        """Restores the node time that to_json() has returned. The teams count as having used the nodes
        of the last observe until the next one. Raises ValueError if the text is not a state."""
        try:
            state = json.loads(text)
            at, nodes = int(state["at"]), {team: int(n) for team, n in state["nodes"].items()}
            used = {team: float(seconds) for team, seconds in state["node_seconds"].items()}
            if not all(0 <= value < math.inf for value in (*nodes.values(), *used.values())):
                raise ValueError("nodes and node_seconds must be at least 0 and finite")
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"parse state of usage: {error!r}") from None
        self._at, self._nodes, self._node_seconds = at, nodes, used
