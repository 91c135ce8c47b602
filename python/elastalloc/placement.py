"""Decides on which machines jobs run, for schedulers that place pods or processes themselves.

elastalloc decides how many units each job gets. A unit is a machine or, for example, one of its
GPUs. A piece is the part of an allocation that must lie together: a piece smaller than a machine
lies on one machine, and a larger piece consists of whole machines of one block. limits() returns
the size limits that the machines imply beyond the capacity of the pool, and place() puts jobs on
machines. The Go package client/placement has the same results, and documents the theorem that
makes both exact.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from elastalloc.v1 import allocator_pb2 as pb

__all__ = [
    "Job",
    "LimitError",
    "Node",
    "NotNestedError",
    "Placement",
    "limits",
    "place",
]

MOST = 2**31 - 1


class Node(NamedTuple):
    """A machine of the pool."""

    id: str  # Required and unique.
    block: str = ""  # Machines that share a rack or an NVLink domain; optional.
    # Units of the machine, for example 8 GPUs. A machine that has fewer units than the largest
    # machine never counts as a whole machine.
    units: int = 0
    # Units available to the jobs to be placed, 0 to units. Units that these jobs occupy now count
    # as free.
    free: int = 0


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


class _Piece(NamedTuple):
    """A number of pieces of one size of one job."""

    job: int
    size: int
    count: int


_On = Dict[int, Dict[int, int]]  # Units by job and machine.


class _Bins:
    """The free units of machines: how many, and in which block."""

    def __init__(self, machine: int, block: List[int], free: List[int]) -> None:
        self.machine, self.block, self.free = machine, block, free
        self.whole = dict.fromkeys(block, 0)  # Free whole machines by block.
        for n, units in enumerate(free):
            self.whole[block[n]] += units == machine

    def take(self, n: int, units: int) -> None:
        """Takes free units of a machine; returns them if units are negative."""
        self.whole[self.block[n]] -= self.free[n] == self.machine
        self.free[n] -= units
        self.whole[self.block[n]] += self.free[n] == self.machine

    def machines(self, size: int) -> int:
        """Returns the number of machines that a piece lies on."""
        return -(-size // self.machine)

    def places(self, size: int) -> int:
        """Returns the number of pieces of a size that fit in the free units."""
        if size > self.machine:
            return sum(whole // self.machines(size) for whole in self.whole.values())
        return sum(free // size for free in self.free)

    def within(self, piece: int, size: int) -> int:
        """Returns the number of places for pieces of a size that a piece takes."""
        if size > self.machine:
            return self.machines(piece) // self.machines(size)
        whole, rest = divmod(piece, self.machine)
        return whole * (self.machine // size) + rest // size

    def fit(self, size: int) -> List[int]:
        """Returns the machines for a piece: the fullest machine that fits, or whole machines of the
        block with the fewest of them. Of equally full machines, it returns the first one in the
        block with the fewest whole machines. It returns none if the piece does not fit."""
        count = self.machines(size)

        def fits(n: int) -> bool:
            if size <= self.machine:
                return self.free[n] >= size
            return self.free[n] == self.machine and self.whole[self.block[n]] >= count

        best = min(
            filter(fits, range(len(self.free))),
            key=lambda n: (self.free[n], self.whole[self.block[n]]),
            default=None,
        )
        if best is None:
            return []
        if size <= self.machine:
            return [best]
        together = (
            n
            for n, block in enumerate(self.block)
            if block == self.block[best] and self.free[n] == self.machine
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
                together = 1  # As many as fit on a machine.
                if size <= self.machine:
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
        _raise(bad)
        machine = max([1] + [node.units for node in nodes])
        names = list(dict.fromkeys(node.block for node in nodes))
        block = [names.index(node.block) for node in nodes]
        self.bins = _Bins(machine, block, [node.free for node in nodes])
        full = [node.block for node in nodes if node.units == machine]
        self.largest = max((full.count(name) for name in names), default=0)  # Machines of a block.
        held = [size for size in sizes if self.bins.machines(size) <= self.largest]
        self.most = max(held, default=0)  # of the sizes that fit a block

    def cut(self, size: int) -> int:
        """Returns the size of the pieces that a piece is cut into: its own if it fits a block."""
        if self.bins.machines(size) <= self.largest or not self.most:
            return size
        return self.most

    def check_nested(self, sizes: Sequence[int]) -> None:
        """Raises ValueError unless each size divides the next. If a size is larger than a machine,
        the units of a machine count as a size."""
        chain = set(sizes)
        if sizes and self.cut(max(sizes)) > self.bins.machine:
            chain.add(self.bins.machine)
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
        block = [self.bins.block[n] for n, _ in on]
        own = _Bins(self.bins.machine, block, [units for _, units in on])
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
        free, found = self.bins.free, []
        if size > self.bins.machine:
            for block in self.bins.whole:
                found.append(self.fewest_in_block(block, size))
        else:
            for n in range(len(free)):
                found.append(self.fewest([], n, size - free[n] % size, size))
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

    def fewest_in_block(self, block: int, size: int) -> Tuple[List[int], bool]:
        """Returns few jobs without which a block has place for one more piece of a size, larger than
        a machine, and whether there are any."""
        bins = self.bins
        machines = [  # That could become whole.
            n
            for n, node in enumerate(self.cluster.nodes)
            if bins.block[n] == block and bins.free[n] < bins.machine == node.free
        ]
        jobs: List[int] = []
        for _ in range(bins.machines(size) - bins.whole[block] % bins.machines(size)):
            found = []
            for n in machines:
                others, enough = self.fewest(jobs, n, bins.machine - bins.free[n], size)
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
