package solver

import "github.com/elastalloc/elastalloc/solver/problem"

// Names of package problem: the options of a decision, the optimization model of
// a snapshot, and the backends that solve it.
type (
	// Admission is the policy that selects which jobs take part in a decision if the smallest sizes of
	// all jobs do not fit into the pool together.
	Admission = problem.Admission

	// BackendName names a backend in options, reports, flags and metrics.
	BackendName = problem.BackendName

	// Formulation is the mixed-integer linear program (MILP) that is passed to an external solver.
	Formulation = problem.Formulation

	// Backend solves problems. Implementations are safe for concurrent use. They keep no state between
	// calls that could change a result.
	Backend = problem.Backend

	// Prover is a backend that also proves bounds for the plans of other backends.
	Prover = problem.Prover

	// SolveOptions are the options of Backend.Solve.
	SolveOptions = problem.SolveOptions

	// Result is the result of Backend.Solve.
	Result = problem.Result

	// Claim is the claim of an external solver about its plan. If it is refuted, the plan is rejected.
	Claim = problem.Claim

	// Limit is the reason why a search stopped.
	Limit = problem.Limit

	// Certificate has the prices with which an independent checker can repeat the proof of a bound:
	// the prices of the options of jobs that are priced per option and not per node. The checker does
	// not have to trust the prices, because any prices give a valid bound.
	Certificate = problem.Certificate

	// SizePrices are the prices of the options of one job.
	SizePrices = problem.SizePrices

	// AdmittedGroup is a group of the model.
	AdmittedGroup = problem.AdmittedGroup

	// Objective is the name of an objective, which a decision maximizes.
	Objective = problem.Objective

	// ObjectiveSpec describes an objective. Validation, model and all outputs use the specifications
	// in problem.Objectives.
	ObjectiveSpec = problem.ObjectiveSpec

	// Unit is the unit of the values of an objective.
	Unit = problem.Unit

	// UnitFormat is the format of a value of an objective in sentences.
	UnitFormat = problem.UnitFormat

	// Options are the options of a decision. The zero value of a field means its default.
	Options = problem.Options

	// BadJobs selects how a request in which jobs have invalid fields is treated.
	BadJobs = problem.BadJobs

	// AcquireWorker acquires one more goroutine for a call. ok is false if none is available. The
	// goroutine has to use the returned context and call release when it is done.
	AcquireWorker = problem.AcquireWorker

	// Plan has the option of every admitted job in every step: plan[i][t] is the option of job i of
	// Problem.Jobs in step t, counted from 0. Only the first step is executed. The next decision
	// starts from a new snapshot, which is the rolling horizon of the paper.
	Plan = problem.Plan

	// Problem is the optimization model of a snapshot after admission. It is immutable, so backends
	// can share it.
	Problem = problem.Problem

	// AdmittedJob is a job of the model.
	AdmittedJob = problem.AdmittedJob

	// TotalTimeOptions are the parameters of ObjectiveTotalTime. Nil means the default of the field.
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
	DefaultObjective   = problem.DefaultObjective

	FormatNumber = problem.FormatNumber
	FormatTime   = problem.FormatTime
	FormatShares = problem.FormatShares

	BadJobsRefuse = problem.BadJobsRefuse
	BadJobsHold   = problem.BadJobsHold

	DefaultFairness         = problem.DefaultFairness
	DefaultAging            = problem.DefaultAging
	DefaultResizePrice      = problem.DefaultResizePrice
	DefaultPayback          = problem.DefaultPayback
	DefaultPausePriceFactor = problem.DefaultPausePriceFactor
	DefaultStartBonus       = problem.DefaultStartBonus
	DefaultQuotaPrice       = problem.DefaultQuotaPrice
	DefaultSharePrice       = problem.DefaultSharePrice

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

// RelativeGap returns the gap between an objective and an upper bound, (bound - objective) /
// max(|bound|, |objective|, tiny). It is never negative, and +Inf if the bound is +Inf.
func RelativeGap(objective, bound float64) float64 { return problem.RelativeGap(objective, bound) }

// DefaultOptions returns the options of an empty request.
func DefaultOptions() Options { return problem.DefaultOptions() }

// NewPlan returns a plan in which no job occupies nodes. It allocates one block of memory.
func NewPlan(jobs, steps int) Plan { return problem.NewPlan(jobs, steps) }

// NewProblem admits jobs of a valid snapshot and builds the model of ObjectiveProgress, which is
// the model of the paper.
func NewProblem(s *Snapshot, admission Admission) *Problem { return problem.NewProblem(s, admission) }

// NewProblemFor admits jobs of a valid snapshot and builds the model of the objective in the
// options, which have their defaults.
func NewProblemFor(s *Snapshot, o Options) *Problem { return problem.NewProblemFor(s, o) }

// Validate returns the invalid fields of a request for a decision. The snapshot and the options
// have their defaults. The snapshot may have at most maxJobs jobs, and known are the existing
// backends.
func Validate(s *Snapshot, o Options, maxJobs int, known []BackendName) []Violation {
	return problem.Validate(s, o, maxJobs, known)
}
