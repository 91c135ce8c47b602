package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
)

// progress shows how far long work is: on a terminal in one line that changes, elsewhere, such
// as in a log, a line every half minute. The zero value shows nothing.
type progress struct {
	w        io.Writer
	screen   cli.Screen
	terminal bool
	now      func() time.Time
	// begun is when the work began, and shown when a line was last written to a log.
	begun, shown time.Time
}

// everySoOften is the time between two lines in a log.
const everySoOften = 30 * time.Second

func newProgress(w io.Writer, env cli.LookupEnv) *progress {
	now := time.Now()
	return &progress{w: w, screen: cli.ScreenFor(w, env), terminal: cli.IsTerminal(w), now: time.Now, begun: now, shown: now}
}

// show says how many of all pieces of the work are done, and what they are.
func (p *progress) show(done, all int, what string) {
	if p.w == nil {
		return
	}
	now := p.now()
	if !p.terminal && now.Sub(p.shown) < everySoOften {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%d of %d %s%s", done, all, text.Printable(what), timeLeft(now.Sub(p.begun), done, all))
	if p.terminal {
		p.clear()
		const width = 20
		full := width * done / max(1, all)
		line = cli.Clip("["+strings.Repeat("█", full)+strings.Repeat("·", width-full)+"] "+line, cli.Width-1)
	} else {
		line += "\n"
	}
	fmt.Fprint(p.w, line)
}

// timeLeft says how long the work still takes, "" before there is a pace and at the end.
func timeLeft(taken time.Duration, done, all int) string {
	if done < 1 || done >= all || taken < time.Second {
		return ""
	}
	left := time.Duration(float64(taken) / float64(done) * float64(all-done))
	return ", about " + format.Span(left.Round(time.Second)) + " left"
}

func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
