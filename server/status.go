package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/elastalloc/elastalloc/solver"
)

var (
	//go:embed status.html
	statusTemplate string
	//go:embed status.css
	statusStyle string
)

// statusPage serves what a person wants to know of a server at a glance. It needs no
// script, and nothing that a caller sent gets into it unescaped.
type statusPage struct {
	version  string
	started  time.Time
	address  func() net.Addr // of gRPC
	host     string
	ready    func() bool
	load     func() Load
	backends []Backend
	history  *history

	page   *template.Template
	policy string // what a browser may do with the page
}

// newStatusPage returns the status page of a server that starts now.
func newStatusPage(s *Server) (*statusPage, error) {
	page, err := template.New("status").Parse(statusTemplate)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	digest := sha256.Sum256([]byte(statusStyle))
	return &statusPage{
		version: s.config.Version, started: time.Now(), address: s.Addr, host: host,
		ready: s.ready.Load, load: s.admission.load, backends: s.config.Backends, history: s.history,
		page: page,
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}, nil
}

// ServeHTTP writes the page. With the query "paused" it does not refresh itself.
func (p *statusPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	view := p.view(time.Now())
	view.Paused = r.URL.Query().Has("paused")
	var text bytes.Buffer
	if err := p.page.Execute(&text, view); err != nil {
		http.Error(w, "the status page is broken: "+err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", p.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	_, _ = text.WriteTo(w) // Whoever asked has gone otherwise.
}

// statusView is what the template shows; its texts are ready to be read.
type statusView struct {
	Style                                            template.CSS
	Paused, Ready                                    bool
	Host, Address, Version, GoVersion, Started, Time string
	Uptime                                           string
	Load                                             Load
	Decided, Kept                                    int
	Backends                                         []backendView
	Decisions                                        []decisionView
}

// backendView is a line of the table of backends.
type backendView struct {
	Name, Version, State, Why  string
	Up                         bool
	Answered, Failed, NotAsked int
}

// decisionView is a line of the table of decisions, and what follows it: a line of
// the backends that were not asked, and one for each try that failed.
type decisionView struct {
	Exact, Time, Age          string
	Snapshot, Backend, Reason string
	Jobs, Nodes               int
	Gap, Gain, Took           string
	Proven, FillIdle          bool
	Undecided, Failed         bool // that is, and by our fault
	NotAsked                  failureView
	Failures                  []failureView
}

// failureView is a try that gave no answer, or all backends that were not asked.
type failureView struct{ Backend, Outcome, Took, Detail string }

// view returns what there is to show at a time.
func (p *statusPage) view(now time.Time) statusView {
	last, decided, tallies := p.history.recall()
	v := statusView{
		Style: template.CSS(statusStyle), Ready: p.ready(), //nolint:gosec // The style is a file of ours.
		Host: p.host, Address: p.address().String(), Version: p.version, GoVersion: runtime.Version(),
		Started: p.started.UTC().Format(time.DateTime), Time: clockTime(now), Uptime: describeAge(now.Sub(p.started)),
		Load: p.load(), Decided: decided, Kept: keptDecisions,
	}
	for _, backend := range p.backends {
		v.Backends = append(v.Backends, viewBackend(backend, tallies[backend.Name], now))
	}
	for i := range last {
		v.Decisions = append(v.Decisions, viewDecision(&last[i], now))
	}
	return v
}

// viewBackend returns the line of a backend.
func viewBackend(backend Backend, t tally, now time.Time) backendView {
	state := backend.state()
	v := backendView{
		Name: string(backend.Name), Version: printable(backend.Version), Up: state.Up,
		Answered: t.answered, Failed: t.failed, NotAsked: t.notAsked,
	}
	v.State, v.Why = describeState(state, now)
	return v
}

// viewDecision returns the lines of a decision.
func viewDecision(d *pastDecision, now time.Time) decisionView {
	v := decisionView{
		Exact: d.ended.UTC().Format(time.RFC3339), Time: dayAndTime(d.ended, now), Age: describeAge(now.Sub(d.ended)),
		Snapshot: printable(d.snapshotID), Jobs: d.jobs, Nodes: d.nodes, Took: describeDuration(d.ended.Sub(d.at)),
	}
	if d.code != codes.OK {
		v.Undecided, v.Failed = true, d.code != codes.Canceled
		v.Reason = describeCode(d.code) + "; request id " + d.requestID
		return v
	}
	v.Backend = string(d.report.Backend)
	v.Reason = describeReason(d.filling, &d.report)
	v.Gap, v.Gain = describeGap(d.filling, &d.report), describeGain(d.filling, &d.report)
	v.Proven, v.FillIdle = d.report.Reason == solver.ReasonOptimal, d.filling
	v.NotAsked, v.Failures = viewFailures(d.report.Attempts)
	return v
}

// viewFailures returns a line of the backends that were not asked, for there may be
// the same in every decision, and a line for each try that failed.
func viewFailures(attempts []solver.Attempt) (notAsked failureView, failures []failureView) {
	var names, details []string
	for _, a := range attempts {
		if a.Outcome == solver.OutcomeUnavailable {
			names = append(names, string(a.Backend))
			details = append(details, printable(strings.TrimPrefix(a.Detail, solver.ErrUnavailable.Error()+": ")))
			continue
		}
		failures = append(failures, failureView{
			Backend: string(a.Backend), Outcome: words(a.Outcome), Took: describeDuration(a.Duration), Detail: printable(a.Detail),
		})
	}
	return failureView{Backend: strings.Join(names, ", "), Detail: strings.Join(details, "; ")}, failures
}
