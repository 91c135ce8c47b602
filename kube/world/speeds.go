package world

import (
	"math"
	"time"
)

// ProgressAt is the share of its work that a job had done at a time, and its nodes then.
type ProgressAt struct {
	Time  time.Time
	Nodes int
	Share float64
}

// SpeedSample is how fast a job went with some nodes, in shares of its work per second.
type SpeedSample struct {
	Nodes int
	Rate  float64
}

// NewSpeedSample returns the speed between two reports of one size, of which the later one
// tells of more progress.
func NewSpeedSample(before, now ProgressAt) SpeedSample {
	return SpeedSample{Nodes: now.Nodes, Rate: (now.Share - before.Share) / now.Time.Sub(before.Time).Seconds()}
}

// Fit is a doubling efficiency, and how sure it is.
type Fit struct {
	Efficiency float64
	// Error is the standard error of Efficiency.
	Error float64
	// Samples are those that it was fitted to, Sizes their different sizes.
	Samples, Sizes int
}

// Sure reports whether the efficiency is known to 0.05, as far as two standard errors tell.
func (f Fit) Sure() bool { return f.Sizes >= 2 && f.Samples >= 6 && 2*f.Error <= 0.05 }

// FitSpeeds fits speed(k) = k e^log2(k) to samples by least squares of the logarithm of
// rate(k)/k, which is a straight line in log2(k) of slope log(e).
func FitSpeeds(samples []SpeedSample) Fit {
	f := Fit{Samples: len(samples)}
	sizes := make(map[int]bool)
	var n, sumX, sumY float64
	for _, s := range samples {
		sizes[s.Nodes] = true
		n, sumX, sumY = n+1, sumX+math.Log2(float64(s.Nodes)), sumY+math.Log(s.Rate/float64(s.Nodes))
	}
	f.Sizes = len(sizes)
	if f.Sizes < 2 || len(samples) < 3 {
		return f
	}
	meanX, meanY := sumX/n, sumY/n
	var xx, xy float64
	for _, s := range samples {
		dx := math.Log2(float64(s.Nodes)) - meanX
		xx += dx * dx
		xy += dx * (math.Log(s.Rate/float64(s.Nodes)) - meanY)
	}
	slope := xy / xx
	var residuals float64
	for _, s := range samples {
		r := math.Log(s.Rate/float64(s.Nodes)) - meanY - slope*(math.Log2(float64(s.Nodes))-meanX)
		residuals += r * r
	}
	f.Efficiency = min(1, math.Exp(slope))
	f.Error = f.Efficiency * math.Sqrt(residuals/(n-2)/xx)
	return f
}

// Progress returns how far the job had come, as its best source last said, and false where
// it holds no nodes, has just been resized, or does not say.
func (j *Job) Progress() (ProgressAt, bool) {
	for _, r := range j.reports {
		if r.progress != nil && j.Nodes() > 0 && !r.at.Before(j.history.since.Add(j.Restart)) {
			return ProgressAt{Time: r.at, Nodes: j.Nodes(), Share: *r.progress}, true
		}
	}
	return ProgressAt{}, false
}
