package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultMaxBytes is the default of Config.MaxBytes, 1 GiB, and MinMaxBytes is its minimum, 1 MiB.
const (
	DefaultMaxBytes = 1 << 30
	MinMaxBytes     = 1 << 20
)

const (
	// maxQueued and maxQueuedBytes are the maximum number of queued calls and the maximum memory of their
	// messages. A single larger call is accepted if the queue is empty.
	maxQueued      = 1024
	maxQueuedBytes = 64 << 20

	// overflowLogInterval is the minimum time between two log messages about dropped calls.
	overflowLogInterval = time.Minute

	// flushInterval is the time between two flushes to disk.
	flushInterval = time.Second

	// A file is rotated after maxFileAge, and after maxFileBytes or 1/maxFileShare of Config.MaxBytes,
	// whichever is smaller.
	maxFileAge   = time.Hour
	maxFileBytes = 64 << 20
	maxFileShare = 8
)

// Config configures a Writer.
type Config struct {
	// Dir is the directory of the files. It is created if it is missing. Two writers must not share a
	// directory, because each would delete the files of the other.
	Dir string
	// MaxBytes is the maximum size of all files together. The oldest files are deleted if it is exceeded. It
	// must be at least MinMaxBytes; 0 means DefaultMaxBytes.
	MaxBytes int64
	// Logger logs when writing fails and when it works again. Nil discards the messages.
	Logger *slog.Logger
}

// Stats counts calls since the start of a Writer.
type Stats struct {
	// Written is the number of calls that were written to disk.
	Written int64
	// Overflowed is the number of calls that were dropped because the queue was full. Failed is the number of
	// calls that were lost because the disk was full, read-only or failed otherwise.
	Overflowed, Failed int64
}

// Writer writes calls to files. It is safe for concurrent use. Calls that cannot be written are dropped and
// counted.
type Writer struct {
	config      Config
	queue       chan queuedCall
	queuedBytes atomic.Int64
	done        chan struct{} // closed when all queued calls are written

	// Record locks mutex for reading while it queues a call, and Close locks it while it closes the queue.
	mutex  sync.RWMutex
	closed bool

	accepted, written, overflowed, failed atomic.Int64
	lastOverflowLog                       atomic.Int64 // Unix time in nanoseconds

	// Used only by the goroutine that writes.
	file    *file
	pending int64 // number of calls in the file that are not flushed
	broken  bool
	retryAt time.Time
}

// queuedCall is a call in the queue.
type queuedCall struct {
	entry Entry
	bytes int64
}

// New returns a writer, which writes in a goroutine until Close is called. It returns an error if the
// configuration is invalid, or if it cannot create the directory and the first file.
func New(config Config) (*Writer, error) {
	switch {
	case config.Dir == "":
		return nil, errors.New("the directory of the recordings is missing")
	case config.MaxBytes == 0:
		config.MaxBytes = DefaultMaxBytes
	case config.MaxBytes < MinMaxBytes:
		return nil, fmt.Errorf("maximum size of recordings is %d bytes; must be at least %d", config.MaxBytes, MinMaxBytes)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Writer{config: config, queue: make(chan queuedCall, maxQueued), done: make(chan struct{})}
	f, err := create(config.Dir, time.Now())
	if err != nil {
		return nil, fmt.Errorf("cannot record: %w", err)
	}
	w.file = f
	go w.run()
	return w, nil
}

// Record queues a call. It never blocks: if the queue is full, the call is dropped and counted. The
// messages of the entry must not be modified afterwards. bytes is the memory of the messages.
func (w *Writer) Record(e Entry, bytes int) {
	if w.enqueue(queuedCall{e, int64(bytes)}) {
		return
	}
	dropped := w.overflowed.Add(1)
	now, last := time.Now().UnixNano(), w.lastOverflowLog.Load()
	if now-last >= int64(overflowLogInterval) && w.lastOverflowLog.CompareAndSwap(last, now) {
		w.config.Logger.Warn("calls are not recorded: the queue is full", "dropped", dropped)
	}
}

// enqueue queues a call and reports whether it did. It drops the call if the queue is full or closed.
func (w *Writer) enqueue(q queuedCall) bool {
	w.mutex.RLock()
	defer w.mutex.RUnlock()
	if total := w.queuedBytes.Add(q.bytes); !w.closed && (total <= maxQueuedBytes || total == q.bytes) {
		select {
		case w.queue <- q:
			w.accepted.Add(1)
			return true
		default:
		}
	}
	w.queuedBytes.Add(-q.bytes)
	return false
}

// Stats returns the current counts.
func (w *Writer) Stats() Stats {
	return Stats{Written: w.written.Load(), Overflowed: w.overflowed.Load(), Failed: w.failed.Load()}
}

// Close writes all queued calls and stops the writer. Later calls are dropped. If ctx is done first,
// the error wraps the error of ctx and has the number of calls that are lost, which count as failed.
// Close must be called once.
func (w *Writer) Close(ctx context.Context) error {
	w.mutex.Lock()
	w.closed = true
	close(w.queue)
	w.mutex.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		lost := w.accepted.Load() - w.written.Load() - w.failed.Load()
		w.failed.Add(lost)
		return fmt.Errorf("%d calls were not written: %w", lost, ctx.Err())
	}
}

// run writes calls until the writer is closed.
func (w *Writer) run() {
	defer close(w.done)
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		select {
		case q, open := <-w.queue:
			if !open {
				w.closeFile()
				return
			}
			w.write(q)
		case <-ticker.C:
			w.flush()
		}
	}
}

func (w *Writer) write(q queuedCall) {
	defer w.queuedBytes.Add(-q.bytes)
	if w.file == nil && !w.openFile() {
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
		w.closeFile()
	}
}

// openFile creates a file and reports whether it succeeded. After a failure it does not try again for
// flushInterval, so that a broken disk costs at most one attempt per second.
func (w *Writer) openFile() bool {
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

// flush flushes the file, and closes it if it is too old.
func (w *Writer) flush() {
	if w.file == nil {
		return
	}
	if w.pending > 0 {
		if err := w.file.encoder.Flush(); err != nil {
			w.fail(err)
			return
		}
		w.flushed()
	}
	if time.Since(w.file.created) >= maxFileAge {
		w.closeFile()
	}
}

// fileLimit returns the size at which a file is rotated, in bytes.
func (w *Writer) fileLimit() int64 { return min(maxFileBytes, w.config.MaxBytes/maxFileShare) }

// flushed counts the pending calls as written.
func (w *Writer) flushed() {
	w.written.Add(w.pending)
	w.pending = 0
	if w.broken {
		w.broken = false
		w.config.Logger.Info("recordings are written again", "file", w.file.path)
	}
}

func (w *Writer) closeFile() {
	if w.file == nil {
		return
	}
	if err := w.file.close(); err != nil {
		w.fail(err)
		return
	}
	w.flushed()
	w.file = nil
}

// fail abandons the file, and counts the pending calls as failed.
func (w *Writer) fail(err error) {
	w.failed.Add(w.pending)
	w.pending = 0
	if w.file != nil {
		w.file.abandon()
		w.file = nil
	}
	w.retryAt = time.Now().Add(flushInterval)
	if !w.broken {
		w.broken = true
		w.config.Logger.Warn("recordings are lost", "error", err)
	}
}
