package solver

import (
	"slices"
	"time"
)

// restartBudgetTimes is K of the restart budget: MaxRecentRestarts restarts may take one in K of the
// time with nodes. docs/evaluation/sequences.md compares values of K.
const restartBudgetTimes = 4

// UsedRestartBudget reports whether job i, which has its defaults, has used its restart budget: it is
// running on a legal size, and its last MaxRecentRestarts restarts took more than one in
// restartBudgetTimes of the time with nodes since the oldest of them. A decision then does not let it grow, move or
// pause by choice, because it could lose its work of the time before another restart. It may shrink.
func (s *Snapshot) UsedRestartBudget(i int) bool {
	job := &s.Jobs[i]
	if job.Queued() || job.RestartTime <= 0 || len(job.RecentRestarts) < MaxRecentRestarts {
		return false
	}
	// The product of the restart time could overflow.
	return job.RecentRestarts[MaxRecentRestarts-1]/(restartBudgetTimes*MaxRecentRestarts) < job.RestartTime && s.canKeep(i)
}

// RestartBudgetWait returns the time with nodes, in seconds, after which a job that has used its restart
// budget may restart again.
func (j *Job) RestartBudgetWait() float64 {
	return restartBudgetTimes*MaxRecentRestarts*j.RestartTime.Seconds() - j.RecentRestarts[MaxRecentRestarts-1].Seconds()
}

// canKeep reports whether the current nodes of job i are a legal size on their node type.
func (s *Snapshot) canKeep(i int) bool {
	current := s.Current(i)
	return slices.ContainsFunc(s.Places(i, nil), func(l Place) bool {
		return l.Type == int(current.Type) && slices.Contains(l.AppendSizes(nil), int(current.Nodes))
	})
}

// SinceRestart returns the time for which the job has had nodes since its last restart, or since its
// first start if RecentRestarts is not set.
func (j *Job) SinceRestart() time.Duration {
	if len(j.RecentRestarts) > 0 {
		return j.RecentRestarts[0]
	}
	return j.TrainingTime
}
