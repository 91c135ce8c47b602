package subprocess

import "fmt"

// headTailBuffer is a writer that keeps the first and the last bytes that are written to it, in equal parts.
type headTailBuffer struct {
	head, tail []byte
	half       int // maximum length of each
	omitted    int // number of bytes between them
}

// newHeadTailBuffer returns a writer that keeps at most limit bytes.
func newHeadTailBuffer(limit int) *headTailBuffer { return &headTailBuffer{half: max(0, limit) / 2} }

// Write never fails.
func (b *headTailBuffer) Write(p []byte) (int, error) {
	first := min(b.half-len(b.head), len(p))
	b.head = append(b.head, p[:first]...)
	b.tail = append(b.tail, p[first:]...)
	if over := len(b.tail) - b.half; over > 0 {
		b.omitted += over
		b.tail = append(b.tail[:0], b.tail[over:]...)
	}
	return len(p), nil
}

// String returns the bytes that were kept, and in between a line with the number of omitted bytes.
func (b *headTailBuffer) String() string {
	if b.omitted == 0 {
		return string(b.head) + string(b.tail)
	}
	return fmt.Sprintf("%s\n[%d bytes of output omitted]\n%s", b.head, b.omitted, b.tail)
}
