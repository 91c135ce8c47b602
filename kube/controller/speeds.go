package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/world"
)

// learner learns doubling efficiencies from the progress that jobs report.
type learner struct {
	samples map[types.UID][]world.SpeedSample
	at      map[types.UID]reached
}

// reached is a share of its work that a job told of.
type reached struct {
	world.ProgressAt
	// just says that the report before, at the same size, told of less.
	just bool
}

func newLearner() *learner {
	return &learner{samples: make(map[types.UID][]world.SpeedSample), at: make(map[types.UID]reached)}
}

// maxSamples is how many samples of a job are kept.
const maxSamples = 200

// learn notes how far every job has come since its last report.
func (l *learner) learn(w *world.World) {
	for _, j := range w.Jobs {
		now, ok := j.Progress()
		if !ok {
			continue
		}
		before, seen := l.at[j.UID]
		switch {
		case !seen || before.Nodes != now.Nodes || now.Share < before.Share:
			l.at[j.UID] = reached{now, false}
		case now.Share == before.Share || now.Time.Sub(before.Time) < time.Second:
			// Many report whole percents, so only from one new share to the next is the time known.
		default:
			if before.just {
				l.samples[j.UID] = append(l.samples[j.UID], world.NewSpeedSample(before.ProgressAt, now))
				if len(l.samples[j.UID]) > maxSamples {
					l.samples[j.UID] = l.samples[j.UID][1:]
				}
			}
			l.at[j.UID] = reached{now, true}
		}
	}
}

// efficiencies returns what is known well enough.
func (l *learner) efficiencies() map[types.UID]float64 {
	known := make(map[types.UID]float64)
	for uid, samples := range l.samples {
		if fit := world.FitSpeeds(samples); fit.Sure() {
			known[uid] = fit.Efficiency
		}
	}
	return known
}

// forget drops the jobs that are no longer present.
func (l *learner) forget(present map[types.UID]bool) {
	for uid := range l.at {
		if !present[uid] {
			delete(l.at, uid)
			delete(l.samples, uid)
		}
	}
}
