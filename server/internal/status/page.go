// Package status implements the status page of a server. It shows the load, the backends, the last responses
// and the last failed calls.
package status

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

var (
	//go:embed page.html
	pageTemplate string
	//go:embed page.css
	pageStyle string
)

// Backend describes a backend of a server.
type Backend struct {
	Name    solver.BackendName
	Version string                    // of its external program; "" if it has none or it is unknown
	State   func() chain.BackendState // the current state; safe for concurrent use
}

// Config configures a page.
type Config struct {
	Version  string
	Backends []Backend
	Address  func() net.Addr // of gRPC
	Ready    func() bool
	Load     func() ingress.Load
	// Explain explains the allocations of the jobs with these ids, and forecasts when jobs start and
	// complete. It returns false if it cannot do so now.
	Explain func(context.Context, Decided, []string) (Insight, bool)
}

// Page serves the status page over HTTP and observes calls. It uses no scripts, and escapes all values from
// requests.
type Page struct {
	history
	config  Config
	started time.Time
	host    string
	page    *template.Template
	policy  string // the Content-Security-Policy
}

// New returns a page for a server that starts now.
func New(config Config) (*Page, error) {
	page, err := template.New("status").Funcs(template.FuncMap{
		"gap": format.Gap, "gain": format.Improvement, "limit": format.Limit, "duration": format.Duration, "printable": text.Printable,
		"outcome": format.Readable[solver.Outcome], "change": format.Readable[solver.Change], "wait": format.Readable[solver.WaitReason],
		"why":  format.Readable[solver.Why],
		"span": span, "length": format.ShortDuration, "after": func(d *time.Duration) string { return format.CoarseDuration(*d) },
		"number": func(x float64) string {
			if math.IsNaN(x) {
				return format.None
			}
			return format.Number(x)
		},
		// Round up, so that only 0 bytes are 0 MiB.
		"mebibytes": func(bytes int) int { return (bytes + 1<<20 - 1) >> 20 },
	}).Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	digest := sha256.Sum256([]byte(pageStyle))
	return &Page{
		config: config, started: time.Now(), host: host, page: page,
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
			"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	}, nil
}

// span formats the duration between two times in whole seconds.
func span(from, to time.Time) string {
	return format.CoarseDuration(max(0, to.Sub(from)).Truncate(time.Second))
}

// ServeHTTP writes the page. With the query "paused" the page does not refresh itself.
// With the query "job" it shows the jobs of the last decision whose ids contain the value.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.explain(func(d Decided, ids []string) (Insight, bool) {
		return p.config.Explain(r.Context(), d, ids)
	})
	view := p.view(time.Now())
	query := r.URL.Query()
	view.Paused = query.Has("paused")
	view.search(query.Get("job"))
	var body bytes.Buffer
	if err := p.page.Execute(&body, view); err != nil {
		http.Error(w, "status page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", p.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	_, _ = body.WriteTo(w) // An error means that the client has disconnected.
}

// view is the data of the template.
type view struct {
	Style                       template.CSS
	Paused, Ready               bool
	Host, Version, GoVersion    string
	Address                     net.Addr
	Started, Now                time.Time // UTC
	Load                        ingress.Load
	Backends                    []backendView
	Kept                        int
	Answered, Refused           []pastCall
	AnsweredCount, RefusedCount int
	Decided                     *lastDecision
	past                        past
	Pictures                    []picture
	Past                        []pastRow
	Each, Shown                 time.Duration // covered by a column, and by all columns
	// Listed are the jobs of the last decision that are shown, More is the number of others, and Searched the part of
	// the id that is searched for.
	Listed   []decidedJob
	More     int
	Searched string
	Forecast []template.HTML
}

// search shows the jobs of the last decision whose ids contain a part, or the first jobs if it is "".
func (v *view) search(part string) {
	if v.Decided == nil {
		return
	}
	v.Searched = strings.TrimSpace(part)
	v.Listed, v.More = v.Decided.find(v.Searched)
	v.Forecast = forecasts(v.Listed)
}

// backendView is a row of the table of backends.
type backendView struct {
	Backend
	chain.BackendState
	tally
	Trying bool // the next decision calls a backend that is down
}

// view returns the data of the page at a time.
func (p *Page) view(now time.Time) view {
	v := view{
		Style: template.CSS(pageStyle), Ready: p.config.Ready(), //nolint:gosec // The style is embedded.
		Host: p.host, Address: p.config.Address(), Version: p.config.Version, GoVersion: runtime.Version(),
		Started: p.started.UTC(), Now: now.UTC(), Load: p.config.Load(), Kept: keptCalls,
	}
	tallies := p.recall(&v)
	v.Each, v.Shown = each, columns*each
	v.Pictures, v.Past = v.past.pictures(v.Now, p.config.Backends)
	v.search("")
	for _, backend := range p.config.Backends {
		state := backend.State()
		v.Backends = append(v.Backends, backendView{
			Backend: backend, BackendState: state, tally: tallies[backend.Name], Trying: !now.Before(state.OpenUntil),
		})
	}
	return v
}
