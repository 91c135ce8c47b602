package solver

import "github.com/elastalloc/elastalloc/solver/problem"

// Names of package problem: the options of a decision, the optimization model that follows from
// a snapshot, and the backends that solve it.
type (
	// Admission is who gets nodes when the minimums of all jobs do not fit.
	Admission = problem.Admission

	// BackendName names a backend in options, reports, flags and metrics.
	BackendName = problem.BackendName

	// Formulation is the MILP handed to an external solver.
	Formulation = problem.Formulation

	// Backend finds plans.
	Backend = problem.Backend

	// Prover is a backend that also proves bounds for plans that are not its own.
	Prover = problem.Prover

	// SolveOptions is what a caller asks of a backend.
	SolveOptions = problem.SolveOptions

	// Result is the answer of a backend.
	Result = problem.Result

	// Claim is what an external solver says of its plan.
	Claim = problem.Claim

	// Limit is what ended a search.
	Limit = problem.Limit

	// Certificate leads a checker that shares no code with the search to the proof that the search
	// found: what sizes cost the jobs that pay for those and not for nodes.
	Certificate = problem.Certificate

	// SizePrices are what the sizes of one job cost.
	SizePrices = problem.SizePrices

	// AdmittedGroup is a group of the model.
	AdmittedGroup = problem.AdmittedGroup

	// Objective names what a decision maximises.
	Objective = problem.Objective

	// ObjectiveSpec describes an objective: the row of the table from which validation, model and
	// every output follow.
	ObjectiveSpec = problem.ObjectiveSpec

	// Unit is what the values of an objective are.
	Unit = problem.Unit

	// UnitFormat is how sentences put a value of an objective.
	UnitFormat = problem.UnitFormat

	// Options is what a caller asks of a decision.
	Options = problem.Options

	// BadJobs is what becomes of a request in which a job has bad fields.
	BadJobs = problem.BadJobs

	// AcquireWorker grants a call one more goroutine, if one is free, which works with the context that
	// AcquireWorker returns; release gives it back.
	AcquireWorker = problem.AcquireWorker

	// Plan is the option of every admitted job in every step: plan[i][t] for job i of Problem.Jobs
	// and step t counted from 0.
	Plan = problem.Plan

	// Problem is the optimisation model of one snapshot after admission: all that a backend needs.
	Problem = problem.Problem

	// AdmittedJob is a job of the model.
	AdmittedJob = problem.AdmittedJob

	// TotalTimeOptions are the parameters of ObjectiveTotalTime.
	TotalTimeOptions = problem.TotalTimeOptions
)

// Constants of package problem.
const (
	AdmissionFIFO       = problem.AdmissionFIFO
	AdmissionOptimized  = problem.AdmissionOptimized
	AdmissionPreemptive = problem.AdmissionPreemptive
	AdmissionStartFirst = problem.AdmissionStartFirst

	BackendExact  = problem.BackendExact
	BackendCBC    = problem.BackendCBC
	BackendHiGHS  = problem.BackendHiGHS
	BackendGreedy = problem.BackendGreedy

	FormulationOneHot = problem.FormulationOneHot
	FormulationPaper  = problem.FormulationPaper

	LimitNone = problem.LimitNone
	LimitGap  = problem.LimitGap
	LimitTime = problem.LimitTime
	LimitWork = problem.LimitWork

	OptimalGap = problem.OptimalGap

	NoLimit = problem.NoLimit

	ObjectiveProgress  = problem.ObjectiveProgress
	ObjectiveTotalTime = problem.ObjectiveTotalTime

	FormatNumber = problem.FormatNumber
	FormatTime   = problem.FormatTime
	FormatShares = problem.FormatShares

	BadJobsRefuse = problem.BadJobsRefuse
	BadJobsHold   = problem.BadJobsHold

	DefaultFairness         = problem.DefaultFairness
	DefaultAging            = problem.DefaultAging
	DefaultRescalePrice     = problem.DefaultRescalePrice
	DefaultPayback          = problem.DefaultPayback
	DefaultPausePriceFactor = problem.DefaultPausePriceFactor
	DefaultStartBonus       = problem.DefaultStartBonus
	DefaultQuotaPrice       = problem.DefaultQuotaPrice

	MaxFactor        = problem.MaxFactor
	MaxTotalTimeSpan = problem.MaxTotalTimeSpan
	MinTotalTimeSpan = problem.MinTotalTimeSpan
)

// Errors of Backend.Solve.
var (
	ErrUnavailable = problem.ErrUnavailable
	ErrUnsuited    = problem.ErrUnsuited
	ErrTimedOut    = problem.ErrTimedOut
	ErrInvalidPlan = problem.ErrInvalidPlan
)

// Admissions returns all admissions.
func Admissions() []Admission { return problem.Admissions() }

// RelativeGap returns how much better than an objective a plan could be, as a share of the bound
// or the objective, whichever is larger in magnitude.
func RelativeGap(objective, bound float64) float64 { return problem.RelativeGap(objective, bound) }

// Objectives returns the table of all objectives.
func Objectives() [2]ObjectiveSpec { return problem.Objectives() }

// DefaultOptions returns the options of an empty request.
func DefaultOptions() Options { return problem.DefaultOptions() }

// FillIdleOptions returns the options that a snapshot for FillIdle is validated with.
func FillIdleOptions() Options { return problem.FillIdleOptions() }

// NewPlan returns a plan in which no job holds nodes.
func NewPlan(jobs, steps int) Plan { return problem.NewPlan(jobs, steps) }

// NewProblem admits jobs of a valid snapshot and builds the model of ObjectiveProgress over them.
func NewProblem(s *Snapshot, admission Admission) *Problem { return problem.NewProblem(s, admission) }

// NewProblemFor admits jobs of a valid snapshot and builds the model over them that the options,
// which have their defaults, select.
func NewProblemFor(s *Snapshot, o Options) *Problem { return problem.NewProblemFor(s, o) }

// Validate returns every bad field of a request for a decision, with their defaults filled in,
// of at most maxJobs jobs and on one of the known backends.
func Validate(s *Snapshot, o Options, maxJobs int, known []BackendName) []Violation {
	return problem.Validate(s, o, maxJobs, known)
}
