package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

const (
	// maxReportFiles and maxReportBytes limit the files in the folder. The first files are kept,
	// because the same bug causes further ones.
	maxReportFiles = 100
	maxReportBytes = 64 << 20

	// maxReportedRequest is the maximum encoded size of a kept request, in bytes. Its JSON is about
	// five times as large.
	maxReportedRequest = 4 << 20

	// maxReportWrites is the maximum number of requests that wait to be written.
	maxReportWrites = 8
)

// bugReports logs bugs of the program and writes the requests that show them to a folder. It is an observer
// of calls whose optimality proofs contradict themselves.
type bugReports struct {
	dir            string // no files are written if it is empty
	logger         *slog.Logger
	contradictions prometheus.Counter
	writes         chan struct{} // one element per request that waits or is being written

	mutex   sync.Mutex
	files   int
	bytes   int64
	writing sync.WaitGroup
}

// newBugReports creates the folder, counts the files in it, and registers the metric.
func newBugReports(dir string, logger *slog.Logger, registry prometheus.Registerer) (*bugReports, error) {
	b := &bugReports{
		dir: dir, logger: limitLines(logger, 1, 10), writes: make(chan struct{}, maxReportWrites),
		contradictions: promauto.With(registry).NewCounter(prometheus.CounterOpts{
			Name: "elastalloc_proof_contradictions_total",
			Help: "Calls in which a search proved a bound below the value of a legal plan, which is a bug. Their responses claim no proof.",
		}),
	}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("--defect-dir: %w", err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("--defect-dir: %w", err)
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil {
				b.files, b.bytes = b.files+1, b.bytes+info.Size()
			}
		}
	}
	return b, nil
}

// Observe counts, logs and keeps a call whose optimality proof contradicts itself.
func (b *bugReports) Observe(ctx context.Context, e *ingress.Event) {
	if e.Contradiction == "" {
		return
	}
	b.contradictions.Inc()
	b.logger.ErrorContext(ctx, "a proof contradicts itself", "request_id", e.RequestID, "method", e.Method, "contradiction", e.Contradiction)
	b.keep("contradiction", e.RequestID, e.RequestBytes, e.Request, nil)
}

// keep writes a request, and its response unless it is nil, in the background.
func (b *bugReports) keep(what, requestID string, requestBytes int, request, response proto.Message) {
	if b.dir == "" || requestBytes > maxReportedRequest {
		return
	}
	select {
	case b.writes <- struct{}{}:
	default:
		b.logKept(requestID, "", fmt.Errorf("%d other requests wait to be written", cap(b.writes)))
		return
	}
	began := time.Now()
	b.writing.Go(func() {
		defer func() { <-b.writes }()
		b.mutex.Lock()
		defer b.mutex.Unlock()
		name := filepath.Join(b.dir, began.UTC().Format("20060102T150405.000000000Z")+"-"+what)
		err := b.write(name+".json", request)
		if err == nil && response != nil {
			err = b.write(name+".answer.json", response)
		}
		b.logKept(requestID, name+".json", err)
	})
}

// logKept logs the file of a kept request, or why it was not kept.
func (b *bugReports) logKept(requestID, file string, err error) {
	if err != nil {
		b.logger.Warn("request that shows a bug not kept", "request_id", requestID, "error", err)
		return
	}
	b.logger.Info("request that shows a bug kept", "request_id", requestID, "file", file)
}

// write writes a message to a file. The caller has locked mutex.
func (b *bugReports) write(name string, m proto.Message) error {
	if b.files >= maxReportFiles {
		return fmt.Errorf("%s: has %d files; must be below %d", b.dir, b.files, maxReportFiles)
	}
	text, err := protojson.MarshalOptions{Multiline: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	if size := b.bytes + int64(len(text)); size > maxReportBytes {
		return fmt.Errorf("%s: would have %d bytes; must be at most %d", b.dir, size, maxReportBytes)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		_ = os.Remove(name)
		return err
	}
	b.files, b.bytes = b.files+1, b.bytes+int64(len(text))
	return nil
}
