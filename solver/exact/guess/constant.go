package guess

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// ConstantPlan returns the best plan in which every job holds one size as long as it
// trains: a single knapsack, which is quick even for many jobs. It is nil if time is up.
func ConstantPlan(clock *model.Clock, in *model.Instance, k Chooser) model.Plan {
	k.Reset()
	free := slices.Min(in.Free)
	for i := range in.Jobs {
		j := &in.Jobs[i]
		for n, nodes := range j.Sizes {
			if int(nodes-j.Sizes[0]) > free {
				break
			}
			k.Option(nodes, j.Progress(j.First[n], j.Later[n])-j.Cost[n])
		}
		k.Item()
		if clock.Up(2 * in.Steps * len(j.Sizes)) {
			return nil
		}
	}
	choices, ok := k.Choose(clock, slices.Min(in.Capacity), constantPrecision*in.Scale)
	if !ok {
		return nil
	}
	p := model.NewPlan(in)
	for i, n := range choices {
		share := 0.0
		for t := 0; t < in.Steps && share < model.Finished; t++ {
			p[i][t] = n
			share += in.Jobs[i].Shares(t)[n]
		}
		if clock.Up(in.Steps) {
			break
		}
	}
	return p
}

// constantPrecision is how good a constant plan is, as a share of the objective: there
// are better ones.
const constantPrecision = 1e-5
