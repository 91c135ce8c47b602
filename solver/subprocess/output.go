package subprocess

import "fmt"

// headAndTail is a writer that keeps the first and the last bytes written to it, half of
// each, and takes any number of them.
type headAndTail struct {
	head, tail []byte
	half       int
	forgotten  int
}

// newHeadAndTail returns a writer that keeps at most limit bytes.
func newHeadAndTail(limit int) *headAndTail { return &headAndTail{half: max(0, limit) / 2} }

// Write keeps what fits and never fails.
func (o *headAndTail) Write(p []byte) (int, error) {
	first := min(o.half-len(o.head), len(p))
	o.head = append(o.head, p[:first]...)
	o.tail = append(o.tail, p[first:]...)
	if over := len(o.tail) - o.half; over > 0 {
		o.forgotten += over
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
	return len(p), nil
}

// String returns what was kept, with a line for what was not.
func (o *headAndTail) String() string {
	if o.forgotten == 0 {
		return string(o.head) + string(o.tail)
	}
	return fmt.Sprintf("%s\n[%d bytes of output left out]\n%s", o.head, o.forgotten, o.tail)
}
