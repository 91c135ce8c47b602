package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"
)

// DefaultMaxBytes is the default of Config.MaxBytes, 1 GiB, and MinMaxBytes the least that
// it may be, 1 MiB.
const (
	DefaultMaxBytes = 1 << 30
	MinMaxBytes     = 1 << 20
)

const (
	// maxQueued and maxQueuedBytes bound what waits to be written: calls, and the bytes that
	// their messages take in memory. A single larger call is taken where no other waits.
	maxQueued      = 1024
	maxQueuedBytes = 64 << 20

	// overflowEvery is how often the log is told that calls are dropped, at most.
	overflowEvery = time.Minute

	// flushEvery is how often what was recorded is written out.
	flushEvery = time.Second

	// A new file is begun after maxFileAge, and after maxFileBytes or maxFileShare of all
	// bytes, whichever is less.
	maxFileAge   = time.Hour
	maxFileBytes = 64 << 20
	maxFileShare = 8
)

// Config configures a Writer.
type Config struct {
	// Dir is the folder of the files, made where it is missing. A writer shares it with no
	// other, which would delete its files.
	Dir string
	// MaxBytes is how much all files together may hold; the oldest are deleted beyond it.
	// 0 means DefaultMaxBytes.
	MaxBytes int64
	// Logger is told when the disk fails and when it works again; nil discards it.
	Logger *slog.Logger
}

// Stats counts calls since a Writer began.
type Stats struct {
	// Written is the number of calls that were written out.
	Written int64
	// Overflowed is the number of those dropped because too many waited to be written,
	// and Failed of those lost because the disk was full, read-only or failed otherwise.
	Overflowed, Failed int64
}

// Writer keeps calls in files, for concurrent use. What cannot be written is dropped and
// counted; it is no error of a call.
type Writer struct {
	config      Config
	queue       chan queued
	queuedBytes atomic.Int64
	quit, ended chan struct{}
	closing     atomic.Bool

	taken, written, overflowed, failed atomic.Int64
	overflowSaid                       atomic.Int64 // when, in nanoseconds

	// Of the goroutine that writes.
	file    *file
	pending int64 // calls in the file that are not written out
	broken  bool
	retryAt time.Time
}

// queued is a call that waits to be written.
type queued struct {
	entry Entry
	bytes int64
}

// New returns a writer, which writes in a goroutine of its own until Close. It makes the
// folder and the first file, and fails where it cannot.
func New(config Config) (*Writer, error) {
	switch {
	case config.Dir == "":
		return nil, errors.New("no folder for recordings")
	case config.MaxBytes == 0:
		config.MaxBytes = DefaultMaxBytes
	case config.MaxBytes < MinMaxBytes:
		return nil, fmt.Errorf("recordings of at most %d bytes; want at least %d", config.MaxBytes, MinMaxBytes)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Writer{
		config: config, queue: make(chan queued, maxQueued),
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
	f, err := create(config.Dir, time.Now())
	if err != nil {
		return nil, fmt.Errorf("cannot record: %w", err)
	}
	w.file = f
	go w.run()
	return w, nil
}

// Record has a call written. It never waits: if too many calls wait already, this one is
// dropped and counted. The messages of the entry must not change afterwards; bytes is what they
// take in memory.
func (w *Writer) Record(e Entry, bytes int) {
	all := w.queuedBytes.Add(int64(bytes))
	if (all <= maxQueuedBytes || all == int64(bytes)) && !w.closing.Load() {
		select {
		case w.queue <- queued{e, int64(bytes)}:
			w.taken.Add(1)
			return
		default:
		}
	}
	w.queuedBytes.Add(-int64(bytes))
	dropped := w.overflowed.Add(1)
	now, said := time.Now().UnixNano(), w.overflowSaid.Load()
	if now-said >= int64(overflowEvery) && w.overflowSaid.CompareAndSwap(said, now) {
		w.config.Logger.Warn("calls are not recorded: too many wait to be written", "dropped", dropped)
	}
}

// Stats returns what became of the calls so far.
func (w *Writer) Stats() Stats {
	return Stats{Written: w.written.Load(), Overflowed: w.overflowed.Load(), Failed: w.failed.Load()}
}

// Close writes out what was recorded and ends the writer. Calls recorded afterwards are
// dropped. Its error is that of ctx, if the disk was too slow, and says how many calls are
// lost, which count as failed. It is called once.
func (w *Writer) Close(ctx context.Context) error {
	w.closing.Store(true)
	close(w.quit)
	select {
	case <-w.ended:
		return nil
	case <-ctx.Done():
		lost := w.taken.Load() - w.written.Load() - w.failed.Load()
		w.failed.Add(lost)
		return fmt.Errorf("%d calls were not written out: %w", lost, ctx.Err())
	}
}

// run writes calls until the writer is closed.
func (w *Writer) run() {
	defer close(w.ended)
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case q := <-w.queue:
			w.write(q)
		case <-ticker.C:
			w.flush()
		case <-w.quit:
			for {
				select {
				case q := <-w.queue:
					w.write(q)
				default:
					w.endFile()
					return
				}
			}
		}
	}
}

func (w *Writer) write(q queued) {
	defer w.queuedBytes.Add(-q.bytes)
	if w.file == nil && !w.begin() {
		w.failed.Add(1)
		return
	}
	text, err := q.entry.line()
	if err != nil {
		w.failed.Add(1)
		w.config.Logger.Warn("a call is not recorded", "error", err)
		return
	}
	w.pending++
	if _, err := w.file.encoder.Write(text); err != nil {
		w.fail(err)
		return
	}
	if w.file.bytes >= w.fileLimit() {
		w.endFile()
	}
}

// begin begins a file and reports whether there is one. After a failure it waits until
// the next second, so that a broken disk costs no more than one look a second.
func (w *Writer) begin() bool {
	now := time.Now()
	if w.broken && now.Before(w.retryAt) {
		return false
	}
	if err := deleteOldest(w.config.Dir, w.config.MaxBytes-w.fileLimit()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.config.Logger.Warn("cannot delete old recordings", "error", err)
	}
	f, err := create(w.config.Dir, now)
	if err != nil {
		w.fail(err)
		return false
	}
	w.file = f
	return true
}

// flush writes out what is in the file, and ends it where it is old.
func (w *Writer) flush() {
	if w.file == nil {
		return
	}
	if w.pending > 0 {
		if err := w.file.encoder.Flush(); err != nil {
			w.fail(err)
			return
		}
		w.wrote()
	}
	if time.Since(w.file.began) >= maxFileAge {
		w.endFile()
	}
}

// fileLimit returns after how many bytes a new file is begun.
func (w *Writer) fileLimit() int64 { return min(maxFileBytes, w.config.MaxBytes/maxFileShare) }

func (w *Writer) wrote() {
	w.written.Add(w.pending)
	w.pending = 0
	if w.broken {
		w.broken = false
		w.config.Logger.Info("recordings are written again", "file", w.file.path)
	}
}

func (w *Writer) endFile() {
	if w.file == nil {
		return
	}
	if err := w.file.close(); err != nil {
		w.fail(err)
		return
	}
	w.wrote()
	w.file = nil
}

// fail gives up the file, if there is one, and what is not yet written out.
func (w *Writer) fail(err error) {
	w.failed.Add(w.pending)
	w.pending = 0
	if w.file != nil {
		w.file.abandon()
		w.file = nil
	}
	w.retryAt = time.Now().Add(flushEvery)
	if !w.broken {
		w.broken = true
		w.config.Logger.Warn("recordings are lost", "error", err)
	}
}
