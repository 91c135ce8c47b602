package server

import (
	"sync"

	"golang.org/x/time/rate"
)

// maxLimitedCallers is how many callers a line limit tells apart; beyond, it forgets them.
const maxLimitedCallers = 1024

// lineLimit bounds the log lines about each caller, and about all of them to ten times
// that: one that fails without end must not fill the disk, nor push others' lines out.
type lineLimit struct {
	perSecond rate.Limit
	burst     int

	mutex   sync.Mutex
	all     *rate.Limiter
	callers map[string]*callerLines
}

// callerLines are the lines about a caller.
type callerLines struct {
	limiter *rate.Limiter
	leftOut int
}

// newLineLimit returns a limit on lines a second in the long run, and on lines at once.
func newLineLimit(perSecond rate.Limit, burst int) *lineLimit {
	return &lineLimit{
		perSecond: perSecond, burst: burst,
		all: rate.NewLimiter(10*perSecond, 10*burst), callers: make(map[string]*callerLines),
	}
}

// allow reports whether a line about a caller is to be written, and how many about it have
// been left out since the last.
func (l *lineLimit) allow(caller string) (leftOut int, ok bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	lines := l.callers[caller]
	if lines == nil {
		if len(l.callers) >= maxLimitedCallers {
			clear(l.callers)
		}
		lines = &callerLines{limiter: rate.NewLimiter(l.perSecond, l.burst)}
		l.callers[caller] = lines
	}
	if !lines.limiter.Allow() || !l.all.Allow() {
		lines.leftOut++
		return 0, false
	}
	leftOut, lines.leftOut = lines.leftOut, 0
	return leftOut, true
}
