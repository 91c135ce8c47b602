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
	// maxDefectFiles and maxDefectBytes bound what a folder of defects holds. The first of
	// them are kept: a defect repeats itself.
	maxDefectFiles = 100
	maxDefectBytes = 64 << 20

	// maxDefectRequest is the size of the largest request that is kept. As JSON it takes some
	// five times that.
	maxDefectRequest = 4 << 20

	// maxDefectWrites is how many requests wait for the disk at most.
	maxDefectWrites = 8
)

// defects keeps what shows a defect of ours in a folder, and logs it. It is an observer of
// calls, for those whose proof contradicted itself.
type defects struct {
	dir            string // "" keeps nothing
	logger         *slog.Logger
	contradictions prometheus.Counter
	writes         chan struct{} // those that wait or are being written

	mutex   sync.Mutex
	files   int
	bytes   int64
	writing sync.WaitGroup
}

// newDefects makes the folder, counts what is in it, and registers the metric.
func newDefects(dir string, logger *slog.Logger, registry prometheus.Registerer) (*defects, error) {
	d := &defects{
		dir: dir, logger: limitLines(logger, 1, 10), writes: make(chan struct{}, maxDefectWrites),
		contradictions: promauto.With(registry).NewCounter(prometheus.CounterOpts{
			Name: "elastalloc_proof_contradictions_total",
			Help: "Calls in which a search bounded the optimum below a legal plan: a defect of the program. Their answers claim no proof.",
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
				d.files, d.bytes = d.files+1, d.bytes+info.Size()
			}
		}
	}
	return d, nil
}

// Observe counts, logs and keeps a call whose proof contradicted itself.
func (d *defects) Observe(ctx context.Context, e *ingress.Event) {
	if e.Contradiction == "" {
		return
	}
	d.contradictions.Inc()
	d.logger.ErrorContext(ctx, "a proof contradicts itself", "request_id", e.RequestID, "method", e.Method, "contradiction", e.Contradiction)
	d.keep("contradiction", e.RequestID, e.RequestBytes, e.Request, nil)
}

// keep writes a request, and the answer to it where there is one, without waiting for the disk.
func (d *defects) keep(what, requestID string, requestBytes int, request, answer proto.Message) {
	if d.dir == "" || requestBytes > maxDefectRequest {
		return
	}
	select {
	case d.writes <- struct{}{}:
	default:
		d.logKept(requestID, "", fmt.Errorf("%d others wait for the disk", cap(d.writes)))
		return
	}
	began := time.Now()
	d.writing.Go(func() {
		defer func() { <-d.writes }()
		d.mutex.Lock()
		defer d.mutex.Unlock()
		name := filepath.Join(d.dir, began.UTC().Format("20060102T150405.000000000Z")+"-"+what)
		err := d.write(name+".json", request)
		if err == nil && answer != nil {
			err = d.write(name+".answer.json", answer)
		}
		d.logKept(requestID, name+".json", err)
	})
}

// logKept logs that a request is kept in a file, or why it is not.
func (d *defects) logKept(requestID, file string, err error) {
	if err != nil {
		d.logger.Warn("a request that shows a defect is not kept", "request_id", requestID, "error", err)
		return
	}
	d.logger.Info("a request that shows a defect is kept", "request_id", requestID, "file", file)
}

// write writes a message, under the lock.
func (d *defects) write(name string, m proto.Message) error {
	if d.files >= maxDefectFiles {
		return fmt.Errorf("%s holds %d files", d.dir, d.files)
	}
	text, err := protojson.MarshalOptions{Multiline: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	if d.bytes+int64(len(text)) > maxDefectBytes {
		return fmt.Errorf("%s holds %d bytes; this one has %d", d.dir, d.bytes, len(text))
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		_ = os.Remove(name)
		return err
	}
	d.files, d.bytes = d.files+1, d.bytes+int64(len(text))
	return nil
}
