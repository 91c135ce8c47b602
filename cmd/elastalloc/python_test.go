package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/elastalloc/elastalloc/internal/testing/connectproxy"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestPythonClient calls servers with the Python client.
func TestPythonClient(t *testing.T) {
	path := wheel(t)
	run := func(t *testing.T, script string, args ...string) {
		t.Helper()
		command := exec.Command(python, append([]string{"-c", script}, args...)...)
		command.Env = append(os.Environ(), "PYTHONPATH="+path)
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	}
	server := startServer(t)
	t.Run("methods", func(t *testing.T) {
		run(t, `
import sys
import grpc
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from elastalloc import Client, message, pb
from elastalloc.eta import Estimator

for value, want in {timedelta(days=-1, microseconds=1): (-86399, -999999000),
0.25: (0, 250000000), -1.5: (-1, -500000000), 3600: (3600, 0)}.items():
    got = message(pb.Job, remaining_eta=value).remaining_eta
    assert (got.seconds, got.nanos) == want, (value, got)
for value in float("nan"), float("-inf"), 1e300:
    try:
        message(pb.Snapshot, jobs=[{"id": "a", "remaining_eta": value}])
        raise AssertionError(value)
    except ValueError as error:
        assert f"remaining_eta is {value}; must" in str(error), error
job = message(pb.Job, id="a", remaining_eta=timedelta(hours=1))
assert job == message(pb.Snapshot, jobs=[{"id": "a", "remaining_eta": 3600}]).jobs[0], job
snapshot = pb.Snapshot(id="one", total_nodes=4, jobs=[job])
address = sys.argv[1]
for target in address, f" {address}\n", "ipv4:" + address, f"ipv4:{address}\r\n", "dns:///" + address, address + ", " + address:
    with Client(target, timeout=60) as c:
        assert c.allocate(snapshot).allocations[0].nodes == 4, target
with Client(address) as c:
    assert c.fill_idle(snapshot, timeout=60).allocations[0].nodes == 4
    explained = c.explain({"id": "one", "total_nodes": 4, "jobs": [job]}, job_ids=["a"], timeout=60)
    assert explained.decision.snapshot_id == "one", explained
    variations = c.what_if(snapshot, {"time_budget": 10}, scenarios=[{"name": "more", "total_nodes": 8}], timeout=60)
    assert variations.results[0].decision.allocations[0].nodes == 8, variations
    assert variations.results[0].benefit > 0.1, variations
    hung = message(pb.Job, id="hung", current_nodes=1)
    Estimator().estimate(user_estimate=3600, work_done=2.5 * 3600).set_on(hung)
    assert hung.work_done.seconds == 9000 and hung.overrun == 2.5, hung
    for objective in pb.OBJECTIVE_PROGRESS, pb.OBJECTIVE_TOTAL_TIME:
        response = c.allocate({"total_nodes": 4, "jobs": [job, hung]}, {"objective": objective}, timeout=60)
        assert [(w.code, w.job_id) for w in response.report.warnings] == [(pb.WARNING_CODE_ETA_RAN_OUT, "hung")], response
    forecast = c.forecast(snapshot, pb.AllocateOptions(), cadence=60, timeout=60)
    assert forecast.jobs[0].job_id == "a", forecast
    for name in "total-time", "TOTAL_TIME", "OBJECTIVE_TOTAL_TIME", "Objective-Total_Time":
        assert message(pb.AllocateRequest, options={"objective": name}).options.objective == pb.OBJECTIVE_TOTAL_TIME, name
    assert c.allocate(snapshot, {"bad_jobs": "hold", "admission": "fifo"}, timeout=60).allocations[0].nodes == 4
    for name in "shortest", "", "hold", "ADMISSION_FIFO":
        try:
            message(pb.AllocateOptions, objective=name)
            raise AssertionError(name)
        except ValueError as error:
            assert str(error) == f"objective is {name!r}; must be one of OBJECTIVE_PROGRESS, OBJECTIVE_TOTAL_TIME", error
    for fields, want in [
        ({"remaining_eta": "2h"}, "remaining_eta is '2h'; must be a number of seconds or a timedelta"),
        ({"recent_restarts": [60, [1]]}, "recent_restarts[1] is [1]; must be a number of seconds or a timedelta"),
        ({"scaling": 3}, "scaling is 3; must be a Scaling or a dict of its fields"),
        ({"scaling": pb.Job()}, "scaling is a Job; must be a Scaling or a dict of its fields"),
    ]:
        try:
            message(pb.Job, **fields)
            raise AssertionError(fields)
        except ValueError as error:
            assert str(error) == want, error
    for seconds in Decimal("1.5"), Fraction(3, 2), 1.5, timedelta(seconds=1.5):
        eta = message(pb.Job, remaining_eta=seconds).remaining_eta
        assert (eta.seconds, eta.nanos) == (1, 500_000_000), seconds
    for wrong in lambda: c.forecast(snapshot, cadnce=60), lambda: message(pb.Job, remaining_eta="1h"):
        try:
            wrong()
            raise AssertionError("no error")
        except (TypeError, ValueError) as error:
            print(error)
    try:
        c.allocate(pb.Snapshot(total_nodes=-1), timeout=60)
        raise AssertionError("no error")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        assert "total_nodes" in error.details(), error
with Client(address, timeout=60) as c:
    broken = message(pb.Job, id="broken", current_nodes=1)
    decided = c.decide({"total_nodes": 4, "jobs": [job, broken]})
    assert [w.code for w in decided.report.warnings] == [pb.WARNING_CODE_BAD_JOB_HELD], decided
    c.allocate = lambda snapshot, options, timeout: (options.objective, options.admission, options.bad_jobs, options.time_budget.seconds)
    hold = pb.BAD_JOBS_HOLD
    for options, want in [
        (None, (0, 0, hold, 0)),
        (pb.AllocateOptions(), (0, 0, hold, 0)),
        ({"time_budget": 3}, (0, 0, hold, 3)),
        ({"objective": pb.OBJECTIVE_PROGRESS}, (pb.OBJECTIVE_PROGRESS, 0, hold, 0)),
        ({"admission": pb.ADMISSION_OPTIMIZED, "bad_jobs": pb.BAD_JOBS_REFUSE}, (0, pb.ADMISSION_OPTIMIZED, pb.BAD_JOBS_REFUSE, 0)),
    ]:
        assert c.decide(snapshot, options) == want, (options, c.decide(snapshot, options))
for target, want in {
    "": "must be host:port",
    "http://localhost:50051": "must be host:port",
    "localhost": "must be host:port",
    "::1": "must be host:port",
    " ": "must be host:port",
    "a:1 b:1": "must be host:port",
    "localhost:": "must be host:port",
    "127.0.0.1:1,": "must be host:port",
    "a:1,b:1": "must be a list of IP addresses",
    "127.0.0.1:1,[::1]:1": "of one version",
}.items():
    try:
        Client(target)
        raise AssertionError(target)
    except ValueError as error:
        assert want in str(error), error
`, server.Addr)
	})
	t.Run("targets", func(t *testing.T) { // like TestTargets of the Go client
		targets, err := filepath.Abs("../../client/testdata/targets.json")
		if err != nil {
			t.Fatal(err)
		}
		run(t, `
import json, sys
from elastalloc import Client

for target, want in json.load(open(sys.argv[1], encoding="utf-8")).items():
    got = ""
    try:
        Client(target).close()
    except ValueError as error:
        got = str(error)
    assert got == (want and f'target is "{target}"; {want}'), (target, got, want)
`, targets)
	})
	t.Run("Unix socket", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		run(t, `
import sys
from elastalloc import Client

for target in "unix://" + sys.argv[1], "unix:" + sys.argv[1]:
    with Client(target, timeout=60) as c:
        response = c.allocate({"total_nodes": 4, "jobs": [{"id": "a", "remaining_eta": 3600}]})
        assert response.allocations[0].nodes == 4, response
`, strings.TrimPrefix(startServer(t, "--listen=unix:"+socket).Addr, "unix://"))
	})
	t.Run("numbers", func(t *testing.T) {
		// Classes like the numbers of NumPy: an index that overflows and that json refuses, and a float that is no float.
		run(t, `
import json
from decimal import Decimal
from fractions import Fraction
from elastalloc import Plan, eta, message, pb, placement, teams

class Int8:
    def __init__(self, value):
        self.value = value
    def __index__(self):
        return self.value
    def __repr__(self):
        return f"Int8({self.value})"
    def _overflow(self, *_):
        raise OverflowError(self)
    __add__ = __radd__ = __sub__ = __neg__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _overflow

class Float32:
    def __init__(self, value):
        self.value = value
    def __float__(self):
        return float(self.value)
    def __repr__(self):
        return f"Float32({self.value})"

class bool_:  # NumPy's name
    def __init__(self, value):
        self.value = value
    def __bool__(self):
        return self.value
    def __float__(self):
        return 1.0
    def __repr__(self):
        return "np.True_"

class Array:
    def __iter__(self):
        return iter([Int8(2), Float32(4)])

class Broken:
    def __float__(self):
        raise TypeError("only one element")
    def __repr__(self):
        return "Broken"

def error(function, *args, **fields):
    try:
        return "no error: " + repr(function(*args, **fields))
    except ValueError as error:
        return str(error)

for four in 4, Int8(4), Float32(4), 4.0, Decimal(4), Fraction(4):
    job = message(pb.Job, min_nodes=four, weight=four, remaining_eta=four, allowed_nodes=[1, four],
        scaling={"table": {"speeds": (1, four)}})
    want = pb.Job(min_nodes=4, weight=4, remaining_eta={"seconds": 4}, allowed_nodes=[1, 4],
        scaling={"table": {"speeds": [1, 4]}})
    assert job == want, (four, job)
    assert message(pb.AllocateOptions, objective=four) == pb.AllocateOptions(objective=4), four
assert message(pb.Job, allowed_nodes=Array(), keep=bool_(True), weight=None, min_nodes=None) == pb.Job(allowed_nodes=[2, 4], keep=True)
assert message(pb.Job, weight=10**400).weight == float("inf")
for wrong in True, bool_(True), "4", "", [4], (), Broken(), object:
    assert error(message, pb.Snapshot, total_nodes=wrong) == f"total_nodes is {wrong!r}; must be an integer", wrong
    assert error(message, pb.Snapshot, jobs=[{}, {"weight": wrong}]) == f"jobs[1].weight is {wrong!r}; must be a number", wrong
    assert error(message, pb.Job, remaining_eta=wrong) == f"remaining_eta is {wrong!r}; must be a number of seconds or a timedelta", wrong
for wrong in 4.5, float("nan"), float("inf"), Decimal("NaN"), Decimal("4.5"), Float32(4.5):
    assert error(message, pb.Job, allowed_nodes=[1, wrong]) == f"allowed_nodes[1] is {wrong!r}; must be an integer", wrong
for field, wrong, want in [
    ("total_nodes", 2**31, "must be an integer from -2147483648 to 2147483647"),
    ("id", 5, "must be a string"),
    ("jobs", 5, "must be a list"),
    ("jobs", [5], "must be a Job or a dict of its fields"),
]:
    got = error(message, pb.Snapshot, **{field: wrong})
    assert got.startswith(field) and got.endswith(want), got
assert error(message, pb.Job, keep="no") == "keep is 'no'; must be True or False"
assert error(message, pb.Job, allowed_nodes=[None]) == "allowed_nodes[0] is None; must be an integer"
assert error(message, pb.Job, remaining_eta=Decimal("NaN")).startswith("remaining_eta is NaN; must")

def machines(kind, units=100):
    return [placement.Node(name, "", kind(units), kind(units)) for name in "ab"], [kind(4)], [placement.Job("j", kind(120), kind(4))]

for kind in Int8, Float32, Decimal:
    for function in placement.limits, placement.place, placement.steps:
        nodes, sizes, jobs = machines(kind)
        args = (nodes, sizes) if function is placement.limits else (nodes, sizes, jobs)
        want = machines(int)[: len(args)]
        assert function(*args) == function(*want), (kind, function)
    json.dumps(placement.place(*machines(kind)))
    plan = Plan()
    plan.observe_machines(machines(kind)[0], [4], [placement.Job("j", piece=kind(4), on={"a": kind(8)})])
    grow = message(pb.AllocateResponse, allocations=[{"job_id": "j", "nodes": kind(16), "change": "CHANGE_SCALE_UP"}])
    plan.reconcile(0, {"total_nodes": kind(200), "jobs": [{"id": "j", "current_nodes": kind(8)}]}, lambda _: grow)
    assert json.dumps(plan.on("j")) == '{"a": 16}', plan.on("j")
    usage = teams.Usage(half_life=kind(100), quotas={"a": kind(4), "b": 4})
    usage.observe(0, {"a": kind(3)})
    usage.restore(usage.to_json())
    estimator = eta.Estimator()
    estimator.completed(kind(100), user_estimate=kind(90), user_error=kind(1))
    eta.Estimator.from_json(estimator.to_json())
    got = estimator.estimate(steps_left=kind(8), seconds_per_step=kind(2), nodes=kind(4), work_done=kind(5), user_estimate=kind(9))
    assert got == estimator.estimate(steps_left=8, seconds_per_step=2, nodes=4, work_done=5, user_estimate=9), got
    got.set_on(pb.Job())
    assert Plan(cadence=kind(60)).cadence == 60
nodes, sizes, jobs = machines(int)
for wrong in True, bool_(True), "4", 4.5, None:
    want = f" is {wrong!r}; must be an integer"
    assert error(placement.limits, [nodes[0]._replace(units=wrong)], sizes) == "nodes[0].units:" + want, wrong
    assert error(placement.place, nodes, [wrong], jobs) == "sizes[0]:" + want, wrong
    assert error(placement.steps, nodes, sizes, [jobs[0]._replace(on={"a": wrong})]) == 'jobs[0].on["a"]:' + want, wrong
    assert error(Plan().observe_machines, nodes, sizes, [jobs[0]._replace(piece=wrong)]) == "jobs[0].piece:" + want, wrong
    assert error(teams.Usage(half_life=1, quotas={"a": 1}).observe, 0, {"a": wrong}) == "nodes['a']:" + want, wrong
    assert error(eta.Estimator().estimate, nodes=wrong) == "nodes:" + want, wrong
for wrong in True, "4", None:
    want = f" is {wrong!r}; must be a number"
    assert error(Plan, cadence=wrong) == "cadence:" + want, wrong
    assert error(teams.Usage, half_life=wrong, quotas={"a": 1}) == "half_life:" + want, wrong
    assert error(teams.Usage, half_life=1, quotas={"a": wrong}) == "quotas['a']:" + want, wrong
    assert error(eta.Estimator().completed, wrong) == "work:" + want, wrong
`)
	})
	t.Run("outgoing proxy", func(t *testing.T) { // as docs/operators/proxies.md has it
		proxy := connectproxy.Start(t, server.Addr)
		const name = "server.example:50051" // Only the proxy can resolve it.
		for _, c := range []struct {
			target, environment string
			connects            []string
		}{
			{name, "https_proxy", []string{name}},
			{name, "http_proxy", []string{name}},
			{name, "grpc_proxy", []string{name}},
			{server.Addr, "https_proxy", []string{server.Addr}},
			{server.Addr, "HTTPS_PROXY", nil},
			{server.Addr, "no_proxy=127.0.0.1 https_proxy", nil},
			{server.Addr, "no_grpc_proxy=127.0.0.1 https_proxy", nil},
			{server.Addr + "," + server.Addr, "https_proxy", nil},
		} {
			run(t, `
import os, sys
for key in [key for key in os.environ if key.lower().endswith("_proxy")]:
    del os.environ[key]
for variable in sys.argv[2:]:
    key, _, value = variable.partition("=")
    os.environ[key] = value
from elastalloc import Client

with Client(sys.argv[1], timeout=60) as c:
    response = c.allocate({"total_nodes": 4, "jobs": [{"id": "a", "remaining_eta": 3600}]})
    assert response.allocations[0].nodes == 4, response
`, append([]string{c.target}, strings.Fields(c.environment+"="+proxy.URL)...)...)
			if connects := proxy.Requests(); !slices.Equal(connects, c.connects) {
				t.Errorf("%s with %s: the proxy got requests for %q; must be %q", c.target, c.environment, connects, c.connects)
			}
		}
	})
	t.Run("time of attempts", func(t *testing.T) { // like TestDeadline of the Go client
		run(t, `
import grpc
from elastalloc import Client, pb

class Late(grpc.RpcError):
    def code(self):
        return grpc.StatusCode.DEADLINE_EXCEEDED

for timeout, budget, first, last in (None, 100, 130, 260), (300, 100, 150, 300), (150, 100, 125, 150), (90, 100, 90, 90):
    timeouts = []

    def method(request, timeout):
        timeouts.append(timeout)
        raise Late()

    try:
        Client("127.0.0.1:1", timeout=60)._call(method, pb.AllocateRequest(options={"time_budget": {"seconds": budget}}), timeout)
        raise AssertionError(timeouts)
    except Late:
        pass
    want = [first] * 3 + [last]
    assert len(timeouts) == 4 and all(w - 5 < g <= w for g, w in zip(timeouts, want)), (timeouts, want)
`)
	})
	t.Run("plan", func(t *testing.T) {
		// The calls in the golden file of the Go client, and tests of groups and speed tables.
		run(t, `
import json
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from google.protobuf.json_format import MessageToDict, ParseDict
from elastalloc import Plan, PoolError, Restarts, message, pb, placement, steps

for number, case in enumerate(json.load(open("../../client/testdata/plans.json"))):
    calls, restarts = case.pop("calls"), case.pop("restarts")
    plan = Plan(**case)
    for call in calls:
        plan.restarts = Restarts.from_json(plan.restarts.to_json())
        now, snapshot = call["at"], ParseDict(call["observe"], pb.Snapshot())
        if "machines" in call:
            machines = call["machines"]
            nodes = [placement.Node(**node) for node in machines["nodes"]]
            plan.observe_machines(nodes, machines["sizes"], [placement.Job(**job) for job in machines["jobs"] or []])
        plan.observe(now, snapshot)
        for job in call.get("failed", []):
            plan.failed(now, job)
        assert plan.overdue(now) == call.get("overdue", []), (number, call)
        if "late" in call:
            plan.decide(now, ParseDict(call["late"], pb.AllocateResponse()))

        def request(snapshot):
            sent = MessageToDict(snapshot)
            assert call["due"] and sent == call["sent"], (number, call, sent)
            assert plan.reason == call["reason"], (number, call, plan.reason)
            if "decide" not in call:
                raise ConnectionError
            return ParseDict(call["decide"], pb.AllocateResponse())

        if "refused" in call:
            try:
                plan.reconcile(now, snapshot, request)
                raise AssertionError((number, call))
            except PoolError as error:
                assert str(error) == call["refused"] and plan.next(now) == [], (number, call, error)
            continue
        assert plan.due(now) == call["due"], (number, call)
        try:
            taken, warnings = plan.reconcile(now, snapshot, request)
        except ConnectionError:
            taken, warnings = plan.next(now), []  # Steps of the last decision continue.
        assert [w.message for w in warnings] == call.get("warnings", []), (number, call, warnings)
        assert [plan.on(step.job_id) for step in taken] == call.get("on", [{}] * len(taken)), (number, call)
        taken = [f"{step.job_id} {step.nodes} {step.node_type}" for step in taken]
        assert taken == call.get("next", []), (number, call, taken)
    assert Restarts.from_json(json.dumps(restarts))._jobs == plan.restarts._jobs, (number, restarts, plan.restarts.to_json())

kept = message(pb.Job, id="a", training_time=1, recent_restarts=[60, timedelta(hours=1)])
for job, want in (kept, [60, 3600]), (message(pb.Job, id="a", training_time=1), [10]), (message(pb.Job, id="a"), []):
    plan, running = Plan(), message(pb.Job, id="a", current_nodes=1)
    running.recent_restarts.extend(job.recent_restarts)
    plan.observe(0, message(pb.Snapshot, total_nodes=8, jobs=[job]))
    plan.observe(0, message(pb.Snapshot, total_nodes=8, jobs=[running]))
    sent = plan.snapshot(10, message(pb.Snapshot, total_nodes=8, jobs=[running])).jobs[0]
    assert [time.ToSeconds() for time in sent.recent_restarts] == want, sent
for text in "", "[]", "[" * 100000, "{}", '{"at": 1, "jobs": {"a": 1}}', '{"at": 1, "jobs": {"a": {"nodes": 1, "since": [2, 1]}}}', \
        '{"at": 1, "jobs": {"a": {"nodes": 1, "since": [-1]}}}', '{"at": 1, "jobs": {"a": {"nodes": 1, "since": [1, 2, 3, 4]}}}', \
        'null', '{"at": 1}', '{"jobs": {}}', '{"at": 1, "jobs": {}} {}', '{"at": 1e400, "jobs": {}}', '{"at": 1.5, "jobs": {}}', \
        '{"at": 9223372036854775808, "jobs": {}}', '{"at": 1, "jobs": {"a": {"nodes": 1, "since": [9223372036854775808]}}}', \
        '{"at": 1, "jobs": {"a": {"nodes": "1"}}}', '{"at": 1, "jobs": {"a": {"nodes": 2147483648}}}', \
        '{"at": 1, "jobs": {"a": {"nodes": 1, "started": "yes"}}}', '{"at": 1, "jobs": {"a": {"nodes": 1, "node_type": 1}}}', \
        '{"at": 1, "jobs": {"a": {"nodes": 1, "more": 1}}}', '{"at": 1, "jobs": {}, "more": 1}':
    try:
        Restarts.from_json(text)
        raise AssertionError(text)
    except ValueError as error:
        assert str(error).startswith("parse state of restarts: "), error
huge = Restarts.from_json('{"at": -9223372036854775808, "jobs": {"a": {"nodes": 1, "since": [5]}}}')
huge.observe(1e9, [message(pb.Job, id="a", current_nodes=1)])
assert json.loads(huge.to_json())["jobs"]["a"]["since"] == [2**63 - 1], huge.to_json()  # The Go client reads it.
plan, types = Plan(), [{"id": "a", "nodes": 8}, {"id": "b", "nodes": 4}, {"id": "c"}]
for n, number in enumerate([2, 2, 3, 2, 1]):
    pool = message(pb.Snapshot, node_types=types[:number])
    plan.observe(n, pool)
    assert plan.due(n) == (n != 1), (n, number)
    plan.snapshot(n, pool)

def reconcile(plan, now, total, current, decided):
    """Returns the warnings of a call, or the error if the pool is rejected."""
    jobs = [{"id": str(n), "current_nodes": nodes} for n, nodes in enumerate(current)]
    allocations = [{"job_id": str(n), "nodes": nodes} for n, nodes in enumerate(decided)]
    report = {"warnings": [{"message": "a warning"}]}
    request = lambda _: message(pb.AllocateResponse, allocations=allocations, report=report)
    try:
        return [w.message for w in plan.reconcile(now, {"total_nodes": total, "jobs": jobs}, request)[1]]
    except PoolError as error:
        return str(error)

plan, warnings = Plan(), ["a warning"]
assert reconcile(plan, 0, 10, [6, 4], [6, 4]) == warnings
assert reconcile(plan, 5, 10, [6, 4], [6, 4]) == []  # No decision was requested.
assert reconcile(plan, 10, 7, [6, 4], [6, 0]) == warnings
for now in 30, 900:
    rejected = reconcile(plan, now, 4, [6, 0], [])
    assert "has 4 nodes, but jobs occupied 6 at the last decision; it may lose at most 30%" in rejected, rejected
assert reconcile(plan, 930, 4, [6, 0], [4, 0]) == warnings  # After three cadences.
for now in 940, 5000:
    rejected = reconcile(plan, now, 0, [6, 0], [])
    assert "has 0 nodes, but jobs occupy 6; total_nodes or node_types must be the usable nodes" in rejected, rejected
assert reconcile(Plan(max_shrink=1), 0, 1, [6, 4], [1, 0]) == warnings
plan, both = Plan(), [{"id": "0", "current_nodes": 4}, {"id": "1", "current_nodes": 4}]
plan.snapshot(0, message(pb.Snapshot, total_nodes=8, jobs=both))
plan.observe(10, message(pb.Snapshot, total_nodes=4, jobs=both))
plan.decide(10, message(pb.AllocateResponse, allocations=[{"job_id": "0", "nodes": 2}]))  # on the pool before it lost nodes
assert plan.next(10) == [], plan.next(10)
plan.observe(20, message(pb.Snapshot, total_nodes=8, jobs=both))
assert plan.next(20) == [("0", 2, True, "")]
idle = Plan().reconcile(0, pb.Snapshot(total_nodes=1), lambda _: pb.FillIdleResponse())
assert idle == ([], []), idle
moves = message(pb.AllocateResponse, allocations=[{"job_id": "a", "nodes": 4, "node_type": "b", "change": pb.CHANGE_MOVE}])
assert steps(moves) == [("a", 0, True, ""), ("a", 4, False, "b")], steps(moves)
`)
	})
	t.Run("sweep", func(t *testing.T) {
		// Like TestSweep of the Go client: the decisions on 20 identical jobs, applied by a Plan, complete all
		// jobs without many resizes.
		run(t, `
import math
import sys
from elastalloc import Client, Plan

OPTIONS = {
    "objective": "OBJECTIVE_TOTAL_TIME",
    "admission": "ADMISSION_START_FIRST",
    "bad_jobs": "BAD_JOBS_HOLD",
    "time_budget": 10,  # A decision takes much less, also on a busy machine.
}
INTERVAL = 10  # seconds between two calls

def sweep(client, nodes, restart):
    """Runs jobs of an hour on one node each, in simulated time, and returns how often each was resized."""
    jobs = {
        f"trial-{n}": {"left": 3600.0, "nodes": 0, "loading": 0, "trained": 0, "waited": 0, "resizes": 0} for n in range(20)
    }
    plan, now, running = Plan(), 0, dict(jobs)
    while running:
        assert now < 200 * 3600, f"{len(running)} jobs run after {now} s with {nodes} nodes and restarts of {restart} s"
        reported = [
            {"id": name, "remaining_eta": job["left"], "current_nodes": job["nodes"], "training_time": job["trained"],
             "waiting_time": job["waited"], "restart_time": restart}
            for name, job in running.items()
        ]
        taken, _ = plan.reconcile(now, {"total_nodes": nodes, "jobs": reported}, lambda s: client.allocate(s, OPTIONS, timeout=60))
        for step in taken:
            job = running[step.job_id]
            job["nodes"], job["loading"], job["resizes"] = step.nodes, restart, job["resizes"] + 1
        for job in running.values():
            if job["nodes"] == 0:
                job["waited"] += INTERVAL
            elif job["loading"] > 0:
                job["loading"] -= INTERVAL
            else:
                job["trained"] += INTERVAL
                job["left"] -= INTERVAL * job["nodes"] * 0.8 ** math.log2(job["nodes"])
        running = {name: job for name, job in running.items() if job["left"] > 0}
        now += INTERVAL
    return [job["resizes"] - 1 for job in jobs.values()]  # without the first start

with Client(sys.argv[1]) as client:
    for nodes in 1, 8:
        for restart in 300, 600:
            resizes = sweep(client, nodes, restart)
            assert max(resizes) <= 8, (nodes, restart, resizes)
`, server.Addr)
	})
	t.Run("placement", func(t *testing.T) { // like TestGolden of the Go client
		run(t, `
import json, sys
from elastalloc import placement

def result(function, *args):
    try:
        return function(*args), ""
    except (ValueError, placement.LimitError, placement.NotNestedError) as error:
        return None, str(error)

with open(sys.argv[1]) as lines:
    for number, line in enumerate(lines, 1):
        case = json.loads(line)
        nodes = [placement.Node(**node) for node in case["nodes"]]
        jobs = [placement.Job(**job) for job in case["jobs"]]
        limits, error = result(placement.limits, nodes, case["sizes"])
        assert error == case.get("limits_error", ""), (number, error)
        assert [[limit.size, limit.nodes] for limit in limits or []] == case["limits"], (number, limits)
        placed, error = result(placement.place, nodes, case["sizes"], jobs)
        assert error == case.get("place_error", ""), (number, error)
        assert (placed.on if placed else None) == case["placed"], (number, placed)
        assert (placed.moved if placed else []) == case.get("moved", []), (number, placed)
        steps, error = result(placement.steps, nodes, case["sizes"], jobs)
        assert error == case.get("place_error", ""), (number, error)
        assert [step._asdict() for step in steps or []] == case.get("steps", []), (number, steps)
assert number > 300, number
`, "../../client/placement/testdata/cases.jsonl")
	})
	t.Run("steps on a slow cluster", func(t *testing.T) { // like TestStepsOnSlowCluster
		script, err := os.ReadFile("testdata/slow_cluster.py")
		if err != nil {
			t.Fatal(err)
		}
		run(t, string(script), strconv.Itoa(testtier.Conformance.Examples(100, 1000)))
	})
	for _, away := range []time.Duration{3 * time.Second, 10 * time.Second, time.Minute} {
		t.Run("server away for "+away.String(), func(t *testing.T) {
			if away > 5*time.Second && !testtier.Faults.Selected() {
				t.Skip("slow; make faults runs it")
			}
			t.Parallel()
			testReconnect(t, path, away)
		})
	}
	t.Run("hanging server", func(t *testing.T) {
		// Both servers start at the same time, so that the client soon knows both. The healthy server returns
		// the number of calls of the hanging one.
		var hangingCalls atomic.Int64
		hanging := startFake(t, func(ctx context.Context) (string, error) {
			hangingCalls.Add(1)
			<-ctx.Done()
			return "", ctx.Err()
		})
		healthy := startFake(t, func(context.Context) (string, error) { return fmt.Sprint(hangingCalls.Load()), nil })
		// A failed call stops the script. The first attempt has 3 s.
		run(t, `
import sys
import time
from elastalloc import Client, pb

with Client(sys.argv[1], timeout=6) as c:
    while int(c.allocate(pb.Snapshot()).snapshot_id) < 1:
        time.sleep(0.01)
`, hanging+","+healthy)
	})
}

// testReconnect stops a server for a while, during which a call begins. The call returns soon after the server
// is back.
func testReconnect(t *testing.T, path string, away time.Duration) {
	t.Helper()
	answers := func(context.Context) (string, error) { return "", nil }
	address, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = address.Close() })
	listener := openListener{address.(*net.TCPListener)}
	stop := serveFake(t, listener, answers)
	command := exec.Command(python, "-c", `
import sys
from elastalloc import Client, pb

with Client(sys.argv[1], timeout=120) as c:
    c.allocate(pb.Snapshot())
    print("connected", flush=True)
    input()
    c.allocate(pb.Snapshot())
`, address.Addr().String())
	command.Env = append(os.Environ(), "PYTHONPATH="+path)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := input.Write([]byte("\n")); err != nil {
		t.Error(err)
	}
	if gap := refuse(t, listener, away); gap > 7*time.Second { // The longest back-off is 3.6 s.
		t.Errorf("the client did not try to connect for %v", gap)
	}
	back := time.Now()
	t.Cleanup(serveFake(t, listener, answers))
	err = command.Wait()
	late := time.Since(back)
	t.Logf("the call returned %v after the server", late)
	if err != nil || late > 8*time.Second {
		t.Errorf("the call returned %v after the server: %v", late, err)
	}
}

// openListener is a listener that keeps its port when it is closed: Accept fails until a server listens again.
type openListener struct{ *net.TCPListener }

func (l openListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

// refuse closes all connections for a while, and returns the longest time between two of them.
func refuse(t *testing.T, listener openListener, away time.Duration) (gap time.Duration) {
	t.Helper()
	last := time.Now()
	if err := listener.SetDeadline(last.Add(away)); err != nil {
		t.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		gap, last = max(gap, time.Since(last)), time.Now()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		_ = connection.Close()
	}
	if err := listener.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return gap
}

// fakeServer returns an id of a snapshot for Allocate calls.
type fakeServer struct {
	elastallocv1.UnimplementedAllocatorServiceServer
	snapshotID func(context.Context) (string, error)
}

func (s fakeServer) Allocate(ctx context.Context, _ *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	id, err := s.snapshotID(ctx)
	return &elastallocv1.AllocateResponse{SnapshotId: id}, err
}

// startFake starts a server and returns its address.
func startFake(t *testing.T, snapshotID func(context.Context) (string, error)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveFake(t, listener, snapshotID))
	return listener.Addr().String()
}

// serveFake serves on a listener until the function that it returns is called.
func serveFake(t *testing.T, listener net.Listener, snapshotID func(context.Context) (string, error)) (stop func()) {
	t.Helper()
	server, healthy := grpc.NewServer(), health.NewServer()
	elastallocv1.RegisterAllocatorServiceServer(server, fakeServer{snapshotID: snapshotID})
	grpc_health_v1.RegisterHealthServer(server, healthy)
	healthy.SetServingStatus(elastallocv1.AllocatorService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	}
}

// python is the Python of Debian, which has the package python3-grpcio.
const python = "/usr/bin/python3"

// wheel builds the Python package and returns its path.
func wheel(t *testing.T) string {
	t.Helper()
	for _, check := range []*exec.Cmd{
		exec.Command(python, "-c", "import grpc"), exec.Command("protoc", "--version"), exec.Command("sh", "-c", "command -v grpc_python_plugin"),
	} {
		if output, err := check.CombinedOutput(); err != nil {
			reason := fmt.Sprintf("%v: %v: %s", check, err, output)
			if os.Getenv("CI") != "" {
				t.Fatalf("%s; make python installs what is missing", reason)
			}
			t.Skipf("%s; make python installs what is missing", reason)
		}
	}
	dir := t.TempDir()
	if output, err := exec.Command("../../scripts/python.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "elastalloc-*-py3-none-any.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("the wheels are %v, %v", wheels, err)
	}
	return wheels[0]
}
