package audit

// option is one way to use nodes, and what it loses.
type option struct {
	nodes int
	loss  int64
}

// layer is the least loss by nodes, from `from` on, of things that each choose an option,
// and the option of the last of them that it takes.
type layer struct {
	from   int
	loss   []int64
	choice []int32
	before *layer
	last   []option
}

// combine adds a thing to a layer. What loses cut or more, or takes more than most nodes, is
// left out.
func (c *search) combine(before *layer, options []option, most int, cut int64) *layer {
	least, largest := infinite, 0
	for _, o := range options {
		least, largest = min(least, o.nodes), max(largest, o.nodes)
	}
	next := &layer{from: before.from + least, before: before, last: options}
	to := min(most, before.from+len(before.loss)-1+largest)
	if len(options) == 0 || len(before.loss) == 0 || to < next.from {
		return next
	}
	c.spend(len(options)*len(before.loss) + to - next.from)
	c.keep(to - next.from + 1)
	next.loss, next.choice = make([]int64, to-next.from+1), make([]int32, to-next.from+1)
	for n := range next.loss {
		next.loss[n] = infinite
	}
	for o, opt := range options {
		for n, loss := range before.loss {
			at := before.from + n + opt.nodes - next.from
			if at >= len(next.loss) {
				break
			}
			if loss += opt.loss; loss < cut && loss < next.loss[at] {
				next.loss[at], next.choice[at] = loss, int32(o)
			}
		}
	}
	first, end := 0, len(next.loss)
	for first < end && next.loss[first] == infinite {
		first++
	}
	for end > first && next.loss[end-1] == infinite {
		end--
	}
	next.from, next.loss, next.choice = next.from+first, next.loss[first:end], next.choice[first:end]
	return next
}

// nothing is the layer of no things.
func nothing() *layer { return &layer{loss: []int64{0}} }

// choices returns the nodes of each thing, in the order in which they were added, of the
// least loss with the given number of nodes.
func (y *layer) choices(nodes int) []int {
	if y.before == nil {
		return nil
	}
	took := y.last[y.choice[nodes-y.from]].nodes
	return append(y.before.choices(nodes-took), took)
}

// within returns the least loss with at most the given nodes where each unused one costs a
// price, and the nodes used.
func (y *layer) within(nodes int, price int64) (loss int64, used int) {
	loss = infinite
	for n, l := range y.loss {
		if at := y.from + n; at <= nodes && l+price*int64(nodes-at) < loss {
			loss, used = l+price*int64(nodes-at), at
		}
	}
	return loss, used
}
