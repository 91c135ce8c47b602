"""Decides on which machines jobs run, for schedulers that place pods or processes themselves.

elastalloc decides how many units each job gets. A unit is a machine or, for example, one of its
GPUs. A piece is the part of an allocation that must lie together: a piece smaller than a machine
lies on one machine, and a larger piece consists of whole machines of one block. limits() returns
the size limits that the machines imply beyond the capacity of the pool, place() puts jobs on
machines, and steps() returns the order in which a placement is carried out. The Go package client/placement has the same results, and documents the theorem that
makes both exact.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from elastalloc.v1 import allocator_pb2 as pb
from elastalloc.values import integers

__all__ = [
    "Job",
    "LimitError",
    "Node",
    "NotNestedError",
    "Placement",
    "Step",
    "limits",
    "place",
    "steps",
]

MOST = 2**31 - 1


class Node(NamedTuple):
    """A machine of the pool."""

    id: str  # Required and unique.
    block: str = ""  # Machines that share a rack or an NVLink domain; optional.
    units: int = 0  # Units of the machine, for example 8 GPUs.
    # Units available to the jobs to be placed, 0 to units. Units that these jobs occupy now count
    # as free. Units that are being released do not.
    free: int = 0
    # Units that are being released now and are not free yet, 0 to units less free. limits() and
    # place() may use them, and steps() waits for them.
    releasing: int = 0


class Job(NamedTuple):
    """An allocation to be placed."""

    id: str  # Required and unique.
    units: int = 0  # Units of the allocation; 0 pauses the job.
    piece: int = 0  # Units of the largest part that must lie together; 0 means all of it.
    on: Optional[Mapping[str, int]] = None  # Units that the job occupies now, by node id.


class Placement(NamedTuple):
    """Where each job goes."""

    on: Dict[str, Dict[str, int]]  # By job id and node id. A paused job has an empty dict.
    moved: List[str]  # Jobs of unchanged units that had to move, in the order of the jobs.


class Step(NamedTuple):
    """A change of the machines of one job."""

    job: str
    # "stop", "shrink", "move", "start" or "grow". A stop and a shrink release units and take none.
    # A start and a grow take units and release none. A move does both.
    do: str
    on: Dict[str, int]  # Units after the step, by node id; empty after a stop.
    # Jobs that must have released the units that they leave before the step begins, in the order of
    # the jobs.
    after: List[str]


class LimitError(Exception):
    """Reports the limit that no placement of the jobs keeps.

    size is the smallest piece that counts, and size 1 is the capacity of the pool. At most units
    units of such pieces fit on the machines; the jobs have used units of them. Of a piece that size
    does not divide, used counts the pieces of size within it.
    """

    def __init__(self, size: int, units: int, used: int) -> None:
        self.size, self.units, self.used = size, units, used
        text = (
            f"no placement exists: pieces of at least {size} units have {used} units together; "
            f"at most {units} fit on the machines"
        )
        if size == 1:
            text = (
                f"no placement exists: the jobs have {used} units; "
                f"the machines have {units} free units"
            )
        super().__init__(text)


class NotNestedError(Exception):
    """Means that place() found no placement, although one may exist, because the pieces do not form
    a chain in which each size divides the next."""


def limits(nodes: Sequence[Node], sizes: Sequence[int]) -> "List[pb.SizeLimit]":
    """Returns the size limits for Snapshot.size_limits that the machines imply beyond the capacity
    of the pool, by ascending size.

    sizes are the piece sizes in use. A limit that follows from the capacity of the pool or from the
    limit of a smaller size is left out. In a snapshot with several node types, call limits() for
    the machines of each type and set node_type. ValueError names every field of a node that is not
    valid, or sizes that do not form a chain.
    """
    nodes, sizes, _ = checked(nodes, sizes)
    cluster = _Cluster(nodes, sizes)
    cluster.check_nested(sizes)
    found = []
    units = cluster.bins.places(1)
    for size in sorted(set(sizes)):
        if cluster.cut(size) < size:
            break  # Its pieces are those of a smaller size.
        held = cluster.bins.places(size) * size
        if held < units:
            found.append(pb.SizeLimit(size=size, nodes=held))
            units = held
    return found


def place(nodes: Sequence[Node], sizes: Sequence[int], jobs: Sequence[Job]) -> Placement:
    """Puts jobs on machines.

    sizes are the piece sizes in use: a piece that fits no block is cut into pieces of the
    largest of sizes that fits a block. A job whose units do not change keeps its machines if
    that is possible, and few such jobs move otherwise. Each piece goes to the fullest machine, or
    block, that fits.

    If the pieces form a chain, it fails if and only if no placement exists, with a LimitError.
    Otherwise it may raise NotNestedError although a placement exists. ValueError names every field
    that is not valid.
    """
    nodes, sizes, jobs = checked(nodes, sizes, jobs)
    placer = _Placer(_Cluster(nodes, sizes), jobs)
    for size in placer.sizes:
        need, places = placer.need(size), placer.bins.places(size)
        if need > places:
            raise LimitError(size, places * size, need * size)
    placer.keep_unchanged()
    on, failed = placer.bins.put(placer.loose())
    while failed and placer.make_place(failed):  # Pieces that form a chain do not fail.
        on, failed = placer.bins.put(placer.loose())
    if failed:
        raise NotNestedError(
            "no placement was found; one may exist, because the pieces do not divide each other; "
            f"a piece of {failed} units fits nowhere"
        )
    return placer.placement(on)


def steps(nodes: Sequence[Node], sizes: Sequence[int], jobs: Sequence[Job]) -> List[Step]:
    """Places jobs as place() does and returns the steps that carry the placement out, in an order in
    which they can be executed.

    A step may begin once the jobs in after have released their units. Then no machine ever has more
    units in use and being released than it has, however long each release takes, and whichever steps
    fail. Stops and shrinks come first. If moves wait for each other, one of these jobs stops, and
    starts after itself.

    Steps that wait for Node.releasing, directly or through other steps, are left out: call steps()
    again once these units are free. A job that changed its machines and still releases old units
    counts with its new machines in on; the old units count as releasing. The errors are those of
    place().
    """
    nodes, sizes, jobs = checked(nodes, sizes, jobs)
    return _Sequence(nodes, jobs, _target(nodes, sizes, jobs)).order()


def checked(
    nodes: Sequence[Node], sizes: Sequence[int], jobs: Sequence[Job] = ()
) -> Tuple[List[Node], List[int], List[Job]]:
    """Returns arguments of limits(), place() and steps() whose numbers are ints. NumPy's would overflow.
    ValueError names every number that is no integer."""
    bad: List[str] = []
    sizes = [integers(bad, f"sizes[{i}]", size) for i, size in enumerate(sizes)]
    nodes = [
        Node(
            node.id,
            node.block,
            integers(bad, f"nodes[{n}].units", node.units),
            integers(bad, f"nodes[{n}].free", node.free),
            integers(bad, f"nodes[{n}].releasing", node.releasing),
        )
        for n, node in enumerate(nodes)
    ]
    jobs = [
        Job(
            job.id,
            integers(bad, f"jobs[{j}].units", job.units),
            integers(bad, f"jobs[{j}].piece", job.piece),
            {id: integers(bad, f"jobs[{j}].on[{_quoted(id)}]", units) for id, units in (job.on or {}).items()},
        )
        for j, job in enumerate(jobs)
    ]
    _raise(bad)
    return nodes, sizes, jobs


def _target(nodes: Sequence[Node], sizes: Sequence[int], jobs: Sequence[Job]) -> Placement:
    """Returns a placement of jobs. It uses no units that are being released if no job has to move
    then."""
    try:
        placed = place([node._replace(releasing=0) for node in nodes], sizes, jobs)
        if not placed.moved:
            return placed
    except (LimitError, NotNestedError):
        pass
    return place(nodes, sizes, jobs)


class _Piece(NamedTuple):
    """A number of pieces of one size of one job."""

    job: int
    size: int
    count: int


_On = Dict[int, Dict[int, int]]  # Units by job and machine.


class _Bins:
    """The free units of machines. The machines of one size in one block are a group."""

    def __init__(self, group: List[int], units: List[int], free: List[int]) -> None:
        self.group, self.free = group, free  # By machine.
        self.units = units  # of a machine of each group
        self.largest = max(units, default=0)  # units of a machine
        self.whole = [0] * len(units)  # Free whole machines by group.
        for n in range(len(free)):
            self.whole[group[n]] += self._is_whole(n)

    def _is_whole(self, n: int) -> bool:
        return self.free[n] == self.units[self.group[n]]

    def take(self, n: int, units: int) -> None:
        """Takes free units of a machine; returns them if units are negative."""
        self.whole[self.group[n]] -= self._is_whole(n)
        self.free[n] -= units
        self.whole[self.group[n]] += self._is_whole(n)

    def machines(self, size: int, units: int) -> int:
        """Returns the number of machines of some units that a piece lies on, 0 if it lies on none of
        them. A piece that is no multiple of a machine lies on a part of several of the largest
        machines only."""
        if not units or (size > units and size % units and units < self.largest):
            return 0
        return -(-size // units)

    def places(self, size: int) -> int:
        """Returns the number of pieces of a size that fit in the free units."""
        places = sum(free // size for free in self.free)
        for units, whole in zip(self.units, self.whole):
            count = self.machines(size, units)
            if count > 1:
                places += whole // count
        return places

    def within(self, piece: int, size: int) -> int:
        """Returns the least number of places for pieces of a size that a piece takes."""
        found = []
        for units in set(self.units):
            count, each = self.machines(piece, units), self.machines(size, units)
            if count == 1:
                found.append(piece // size)
            elif count and size <= units:
                found.append(piece // units * (units // size) + piece % units // size)
            elif count:
                found.append(count // each if each else 0)
        return min(found, default=piece // size)

    def fit(self, size: int) -> List[int]:
        """Returns the machines for a piece: the fullest machine that fits or, if there is none, whole
        machines of the group with the fewest of them. Of equally full machines, it returns the first
        one in the group with the fewest whole machines. It returns none if the piece does not
        fit."""
        found = []
        for n, free in enumerate(self.free):
            group = self.group[n]
            count = self.machines(size, self.units[group])
            if self._is_whole(n) and self.whole[group] >= count if count > 1 else free >= size:
                found.append((count, free, self.whole[group], n))
        if not found:
            return []
        count, free, _, best = min(found)
        if count == 1:
            return [best]
        together = (
            n
            for n in range(best, len(self.free))
            if self.group[n] == self.group[best] and self.free[n] == free
        )
        return [n for n, _ in zip(together, range(count))]

    def put(self, pieces: List[_Piece]) -> "Tuple[_On, int]":
        """Places pieces, the largest first. Returns the units of each job on each machine and the
        size of a piece that does not fit, or 0, and leaves the free units as they were."""
        on: _On = {}
        failed = 0
        for job, size, count in sorted(pieces, key=lambda piece: -piece.size):
            own = on.setdefault(job, {})
            while count:
                machines = self.fit(size)
                if not machines:
                    failed = size
                    break
                together = 1
                if len(machines) == 1:  # As many as fit on the machine.
                    together = min(count, self.free[machines[0]] // size)
                count -= together
                units = together * size
                for n in machines:
                    part = min(units, self.free[n])
                    self.take(n, part)
                    own[n] = own.get(n, 0) + part
                    units -= part
            if failed:
                break
        for own in on.values():
            for n, units in own.items():
                self.take(n, -units)
        return on, failed


def _raise(bad: List[str]) -> None:
    if bad:
        raise ValueError("\n".join(bad))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check_id(bad: List[str], seen: Dict[str, int], kind: str, n: int, id: str) -> None:
    """Notes an id of a kind of message that is empty or not unique."""
    if id in seen:
        bad.append(f"{kind}s[{n}].id: is {_quoted(id)} like {kind}s[{seen[id]}].id; must be unique")
    elif not id:
        bad.append(f"{kind}s[{n}].id: is empty; every {kind} must have an id")
    seen[id] = n


class _Cluster:
    """The machines of a pool, with their free units."""

    def __init__(self, nodes: Sequence[Node], sizes: Sequence[int]) -> None:
        bad = [
            f"sizes[{i}]: is {size}; must be 1 to {MOST}"
            for i, size in enumerate(sizes)
            if not 1 <= size <= MOST
        ]
        self.nodes = nodes
        self.index: Dict[str, int] = {}
        total = 0
        for n, node in enumerate(nodes):
            _check_id(bad, self.index, "node", n, node.id)
            most = MOST - total
            if not 0 <= node.units <= most:
                bad.append(
                    f"nodes[{n}].units: is {node.units}; must be 0 to {most}, "
                    f"so that all nodes have at most {MOST}"
                )
                continue
            total += node.units
            if not 0 <= node.free <= node.units:
                bad.append(f"nodes[{n}].free: is {node.free}; must be 0 to units ({node.units})")
            elif not 0 <= node.releasing <= node.units - node.free:
                bad.append(
                    f"nodes[{n}].releasing: is {node.releasing}; "
                    f"must be 0 to units less free ({node.units - node.free})"
                )
        _raise(bad)
        groups: Dict[Tuple[str, int], int] = {}
        group = [groups.setdefault((node.block, node.units), len(groups)) for node in nodes]
        self.usable = [node.free + node.releasing for node in nodes]  # Units, in use or not.
        self.bins = _Bins(group, [units for _, units in groups], list(self.usable))
        self.count = [group.count(g) for g in range(len(groups))]  # Machines by group.
        self.most = max(filter(self.can_fit, sizes), default=0)  # Largest size that fits a block.

    def can_fit(self, size: int) -> bool:
        """Returns whether a piece of a size fits an empty block."""
        return any(
            0 < self.bins.machines(size, units) <= count
            for units, count in zip(self.bins.units, self.count)
        )

    def cut(self, size: int) -> int:
        """Returns the size of the pieces that a piece is cut into: its own if it fits a block."""
        return size if not self.most or self.can_fit(size) else self.most

    def check_nested(self, sizes: Sequence[int]) -> None:
        """Raises ValueError unless each size divides the next. If a size fits on several machines of
        a block, the units of these machines count as a size."""
        chain = set(sizes)
        for units, count in zip(self.bins.units, self.count):
            if any(1 < self.bins.machines(size, units) <= count for size in sizes):
                chain.add(units)
        ordered = sorted(chain)
        for small, large in zip(ordered, ordered[1:]):
            if large % small:
                raise ValueError(
                    f"sizes: {small} does not divide {large}; each size must divide the next one, "
                    "and sizes above the units of a machine must be multiples of them"
                )


class _Placer:
    """Chooses the jobs that keep their machines. The free units are those that they leave."""

    def __init__(self, cluster: _Cluster, jobs: Sequence[Job]) -> None:
        self.cluster, self.bins, self.jobs = cluster, cluster.bins, jobs
        bad: List[str] = []
        seen: Dict[str, int] = {}
        for j, job in enumerate(jobs):
            _check_id(bad, seen, "job", j, job.id)
            if not 0 <= job.units <= MOST:
                bad.append(f"jobs[{j}].units: is {job.units}; must be 0 to {MOST}")
            if job.piece < 0:
                bad.append(f"jobs[{j}].piece: is {job.piece}; must be at least 0")
            for id, units in sorted((job.on or {}).items()):
                if not 0 <= units <= MOST:
                    bad.append(f"jobs[{j}].on[{_quoted(id)}]: is {units}; must be 0 to {MOST}")
        _raise(bad)
        self.parts = [self.split(j) for j in range(len(jobs))]  # Pieces, the largest first.
        # Units on each machine now, without those that the pool lost.
        self.on = [
            {
                cluster.index[id]: units
                for id, units in (job.on or {}).items()
                if units and id in cluster.index
            }
            for job in jobs
        ]
        self.kept = [False] * len(jobs)  # Whether each job keeps its machines.
        # Jobs that may keep each machine.
        self.job_on: List[List[int]] = [[] for _ in cluster.nodes]
        self.sizes = sorted({1, *(part.size for parts in self.parts for part in parts)})

    def split(self, j: int) -> List[_Piece]:
        """Returns the pieces of a job, the largest first."""
        units, piece = self.jobs[j].units, self.jobs[j].piece
        if not units:
            return []
        size = self.cluster.cut(min(units, piece or units))
        count, rest = divmod(units, size)
        return [_Piece(j, size, count)] + [_Piece(j, rest, 1)] * (rest > 0)

    def loose(self) -> List[_Piece]:
        """Returns the pieces of the jobs that are not kept."""
        return [part for parts, kept in zip(self.parts, self.kept) if not kept for part in parts]

    def need(self, size: int) -> int:
        """Returns the number of places for pieces of a size that the jobs that are not kept
        need."""
        return sum(part.count * self.bins.within(part.size, size) for part in self.loose())

    def lacks(self) -> int:
        """Returns the largest size that lacks places, 0 if there is none."""
        for size in reversed(self.sizes):
            if self.need(size) > self.bins.places(size):
                return size
        return 0

    def keep(self, j: int, keep: bool) -> None:
        """Has a job keep its machines, or no longer."""
        self.kept[j] = keep
        for n, units in self.on[j].items():
            self.bins.take(n, units if keep else -units)

    def release(self, jobs: List[int]) -> None:
        for j in jobs:
            self.keep(j, False)

    def unchanged(self, j: int) -> bool:
        """Reports whether the units of a job do not change."""
        return 0 < self.jobs[j].units == sum((self.jobs[j].on or {}).values())

    def lies_together(self, j: int) -> bool:
        """Reports whether the pieces of a job lie on its machines as place() puts them."""
        on = sorted(self.on[j].items())
        group = [self.bins.group[n] for n, _ in on]
        own = _Bins(group, self.bins.units, [units for _, units in on])
        _, failed = own.put(self.parts[j])
        return not failed

    def keep_unchanged(self) -> None:
        """Keeps the jobs whose units do not change, but for few: those that have to make place for
        others."""
        jobs = range(len(self.jobs))
        candidates = [j for j in jobs if self.unchanged(j) and self.lies_together(j)]
        for j in candidates:
            for n in self.on[j]:
                self.job_on[n].append(j)
            self.keep(j, True)
        for n in range(len(self.cluster.nodes)):
            if self.bins.free[n] < 0:  # It lost units.
                over, _ = self.fewest([], n, -self.bins.free[n], MOST + 1)
                self.release(over)
        size = self.lacks()
        while size:
            self.make_place(size)  # It releases a job: if none is kept, no size lacks places.
            size = self.lacks()
        for j in reversed(candidates):  # Later releases may have made earlier ones needless.
            if self.kept[j]:
                continue
            self.keep(j, True)
            if min(self.bins.free) < 0 or self.lacks():
                self.keep(j, False)

    def make_place(self, size: int) -> bool:
        """Releases the fewest kept jobs that make place for one more piece of a size or, if none do,
        the first kept job. Reports whether it released any."""
        bins, found = self.bins, []
        for group, units in enumerate(bins.units):
            if bins.machines(size, units) > 1:
                found.append(self.fewest_in_group(group, size))
        for n, free in enumerate(bins.free):
            if size <= bins.units[bins.group[n]]:
                found.append(self.fewest([], n, size - free % size, size))
        best = min(
            (jobs for jobs, enough in found if enough),
            key=lambda jobs: (len(jobs), sum(self.jobs[j].units for j in jobs)),
            default=None,
        )
        if best is None and True in self.kept:  # The pieces do not form a chain.
            best = [self.kept.index(True)]
        self.release(best or [])
        return best is not None

    def fewest(self, jobs: List[int], n: int, units: int, below: int) -> Tuple[List[int], bool]:
        """Returns some jobs and the fewest others that have pieces below a size and together
        occupy a number of units of a machine, and whether there are any."""
        others = []  # By ascending units on the machine.
        for j in self.job_on[n]:
            if j in jobs:
                units -= self.on[j][n]
            elif self.kept[j] and self.parts[j][-1].size < below:
                others.append(j)
        others.sort(key=lambda j: self.on[j][n])
        jobs = list(jobs)
        while units > 0 and others:
            enough = [i for i, j in enumerate(others) if self.on[j][n] >= units]
            chosen = others.pop(enough[0] if enough else -1)
            units -= self.on[chosen][n]
            jobs.append(chosen)
        return jobs, units <= 0

    def fewest_in_group(self, group: int, size: int) -> Tuple[List[int], bool]:
        """Returns few jobs without which a group has place for one more piece of a size, larger than
        its machines, and whether there are any."""
        bins = self.bins
        units = bins.units[group]
        machines = [  # That could become whole.
            n
            for n, usable in enumerate(self.cluster.usable)
            if bins.group[n] == group and bins.free[n] < units == usable
        ]
        jobs: List[int] = []
        count = bins.machines(size, units)
        for _ in range(count - bins.whole[group] % count):
            found = []
            for n in machines:
                others, enough = self.fewest(jobs, n, units - bins.free[n], size)
                if enough:
                    found.append((others, n))
            if not found:
                return [], False
            jobs, chosen = min(found, key=lambda of: len(of[0]))
            machines.remove(chosen)
        return jobs, True

    def placement(self, on: _On) -> Placement:
        """Returns where each job goes, given the machines of those that are not kept."""
        placed = Placement({}, [])
        for j, job in enumerate(self.jobs):
            own = self.on[j] if self.kept[j] else on.get(j, {})
            placed.on[job.id] = {self.cluster.nodes[n].id: units for n, units in own.items()}
            if self.unchanged(j) and own != self.on[j]:
                placed.moved.append(job.id)
        return placed


class _Release(NamedTuple):
    """The units of a machine that a job leaves with its step."""

    job: int
    units: int
    late: bool  # Whether the step is left out.


class _Machine:
    """The units of a machine that jobs leave."""

    def __init__(self, free: int, releasing: int) -> None:
        self.free = free  # Units that may be taken; below 0 if the machine lost units.
        self.left: List[_Release] = []  # Units that are not part of free yet.
        self.releasing = releasing
        self.after: List[int] = []  # Jobs that have to release units of free before all is free.
        self.late = False  # Whether free has units that steps() cannot wait for.

    def take(self, units: int) -> None:
        """Takes units: those that are free, then those that jobs leave, in the order of their steps,
        and those that are being released last."""
        while self.free < units and self.left:
            release = self.left.pop(0)
            self.free += release.units
            self.after.append(release.job)
            self.late |= release.late
        if self.free < units:
            self.free, self.releasing, self.late = self.free + self.releasing, 0, True
        self.free -= units


class _Sequence:
    """Puts the changes of jobs in an order."""

    def __init__(self, nodes: Sequence[Node], jobs: Sequence[Job], placed: Placement) -> None:
        self.jobs = jobs
        self.machines = {node.id: _Machine(node.free, node.releasing) for node in nodes}
        # Units of each job by node id, before and after its next step.
        self.now = [{id: units for id, units in (job.on or {}).items() if units} for job in jobs]
        self.to = [placed.on[job.id] for job in jobs]
        for now in self.now:
            for id, units in now.items():
                if id in self.machines:
                    self.machines[id].free -= units
        self.stopped = [False] * len(jobs)  # Whether each job stops to break a cycle.
        self.steps: List[Step] = []

    def order(self) -> List[Step]:
        """Returns the steps."""
        waiting = []  # Jobs that take units.
        for j in range(len(self.jobs)):
            if self.takes(j):
                waiting.append(j)
            elif self.now[j] != self.to[j]:
                self.do(j)
        while waiting:
            blocked = []
            for j in waiting:
                if self.lacks(j) is None:
                    self.do(j)
                else:
                    blocked.append(j)
            if len(blocked) == len(waiting):
                self.stop(self.in_cycle(blocked))
            waiting = blocked
        return self.steps

    def takes(self, j: int) -> bool:
        """Returns whether a job takes units of any machine."""
        return any(units > self.now[j].get(id, 0) for id, units in self.to[j].items())

    def action(self, j: int) -> str:
        """Returns what the next step of a job does."""
        if not self.to[j]:
            return "stop"
        if not self.now[j]:
            return "start"
        if not self.takes(j):
            return "shrink"
        leaves = any(units > self.to[j].get(id, 0) for id, units in self.now[j].items())
        return "move" if leaves else "grow"

    def lacks(self, j: int) -> Optional[str]:
        """Returns the first machine that has too few units for a job, whatever jobs have left."""
        for id, machine in self.machines.items():
            units = machine.free + machine.releasing + sum(r.units for r in machine.left)
            if self.to[j].get(id, 0) - self.now[j].get(id, 0) > max(0, units):
                return id
        return None

    def in_cycle(self, blocked: List[int]) -> int:
        """Returns one of several jobs that wait for each other to leave machines."""
        j = blocked[0]
        for _ in blocked:  # Each of them lacks units that another one occupies: all fit in the end.
            id = self.lacks(j)
            j = next(k for k in blocked if self.now[k].get(id, 0) > self.to[k].get(id, 0))
        return j

    def stop(self, j: int) -> None:
        """Stops a job that is to start again."""
        to, self.to[j] = self.to[j], {}
        self.do(j)
        self.now[j], self.to[j], self.stopped[j] = {}, to, True

    def do(self, j: int) -> None:
        """Adds the next step of a job, which lacks no units, unless it waits for units that are being
        released."""
        after, late = {j} if self.stopped[j] else set(), False
        for id, units in self.to[j].items():
            need = units - self.now[j].get(id, 0)
            if need > 0:
                machine = self.machines[id]
                machine.take(need)
                after.update(machine.after)
                late |= machine.late
        for id, units in self.now[j].items():
            left = units - self.to[j].get(id, 0)
            if left > 0 and id in self.machines:
                self.machines[id].left.append(_Release(j, left, late))
        if not late:
            names = [self.jobs[k].id for k in sorted(after)]
            self.steps.append(Step(self.jobs[j].id, self.action(j), self.to[j], names))
