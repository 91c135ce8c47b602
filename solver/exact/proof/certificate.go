package proof

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Certificate returns the leaves of the search, each with the prices that it was closed at,
// or nil where the plan and the node prices of the result say it all.
func (s *Search) Certificate(p *solver.Problem) *solver.Certificate {
	leaves := append(slices.Clone(s.ended), s.open...)
	if s.lagrangian == nil || len(leaves) == 1 && s.sizesAt == nil {
		return nil
	}
	certificate := new(solver.Certificate)
	for _, part := range leaves {
		leaf := solver.Leaf{NodePrices: s.in.NodePrices(part.prices)}
		for f, i := range s.in.Finishing {
			for t, allowed := range part.allowedFor(f, s.in.Steps) {
				if left := leftOf(s.in, p, i, t, allowed); left != nil {
					leaf.Restrictions = append(leaf.Restrictions, solver.Restriction{Job: i, Step: t, Nodes: left})
				}
			}
		}
		if s.sizesAt != nil {
			leaf.SizePrices = s.sizePrices(p)
		}
		certificate.Leaves = append(certificate.Leaves, leaf)
	}
	return certificate
}

// leftOf returns the sizes that a restriction leaves job i in step t, nil where it leaves all.
// One that is too large for the step goes with the largest that is not.
func leftOf(in *model.Instance, p *solver.Problem, i, t int, allowed model.SizeSet) []int {
	fitting := in.Fitting(&in.Jobs[i], t)
	if allowed == model.SmallestSizes(fitting) {
		return nil
	}
	var left []int
	for k, nodes := range p.Jobs[i].Sizes {
		if allowed.Has(min(k, fitting-1)) {
			left = append(left, nodes)
		}
	}
	return left
}

// sizePrices returns the prices per size of the root in units of the objective.
func (s *Search) sizePrices(p *solver.Problem) []solver.SizePrices {
	cost := s.sizes.CostAt(s.sizesAt)
	var all []solver.SizePrices
	for f, i := range s.in.Finishing {
		j, class := &s.in.Jobs[i], s.sizes.ClassOf[f]
		of := solver.SizePrices{Job: i}
		for t := range s.in.Steps {
			fitting := s.in.Fitting(j, t)
			for k := range p.Jobs[i].Sizes {
				price := cost(class, t, min(k, fitting-1))
				if k >= fitting { // It is in no plan: no price is too high.
					price += 2 * j.Tail[0]
				}
				of.Prices = append(of.Prices, price*s.in.Unit)
			}
		}
		all = append(all, of)
	}
	return all
}
