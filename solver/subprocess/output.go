package subprocess

import "fmt"

// headAndTail is a writer that keeps the first and the last bytes written to it
// and takes any number of them.
type headAndTail struct {
	head, tail []byte // tail is a ring that begins at next once it is full
	next       int
	half       int
	forgotten  int64
}

// newHeadAndTail returns a writer that keeps at most limit bytes.
func newHeadAndTail(limit int) *headAndTail { return &headAndTail{half: max(0, limit) / 2} }

// Write keeps what fits and never fails.
func (o *headAndTail) Write(p []byte) (int, error) {
	written := len(p)
	if room := min(o.half-len(o.head), len(p)); room > 0 {
		o.head = append(o.head, p[:room]...)
		p = p[room:]
	}
	if over := len(p) - o.half; over > 0 { // Only the end of p can stay.
		o.forgotten += int64(over)
		p = p[over:]
	}
	if room := min(o.half-len(o.tail), len(p)); room > 0 {
		o.tail = append(o.tail, p[:room]...)
		p = p[room:]
	}
	o.forgotten += int64(len(p)) // Each byte takes the place of one.
	for len(p) > 0 {
		n := copy(o.tail[o.next:], p)
		p = p[n:]
		o.next = (o.next + n) % o.half
	}
	return written, nil
}

// String returns what was kept, with a line for what was not.
func (o *headAndTail) String() string {
	tail := string(o.tail[o.next:]) + string(o.tail[:o.next])
	if o.forgotten == 0 {
		return string(o.head) + tail
	}
	return fmt.Sprintf("%s\n[%d bytes of output left out]\n%s", o.head, o.forgotten, tail)
}
