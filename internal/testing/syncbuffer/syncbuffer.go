// Package syncbuffer has a buffer that one goroutine can read while another writes it, for example a log.
package syncbuffer

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer is a buffer that is safe for concurrent use. Its zero value is empty.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write appends to the buffer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns the content so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// Line returns the last line that contains all of the given texts, or "" if there is none.
func (b *Buffer) Line(texts ...string) string {
	found := ""
	for line := range strings.Lines(b.String()) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			found = line
		}
	}
	return found
}
