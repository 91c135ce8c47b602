// Package syncbuffer has a buffer for what one goroutine or process writes while
// another reads it, such as a log.
package syncbuffer

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer is a buffer that is safe for concurrent use. Its zero value is empty.
type Buffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

// Write appends to the buffer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}

// Line returns the last line that holds all the given texts, "" if there is none.
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
