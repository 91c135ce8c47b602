package horizon

import (
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Certificate returns the best prices per size in units of the objective. It returns nil if the
// search did not use prices per size; the node prices of the result then suffice for a check.
func (s *Search) Certificate(p *problem.Problem) (certificate solver.Certificate) {
	if s.bestSizePrices == nil {
		return nil
	}
	cost := s.sizes.CostAt(s.bestSizePrices)
	for f, i := range s.in.Finishing {
		j, class := &s.in.Jobs[i], s.sizes.ClassOf[f]
		of := solver.SizePrices{Job: i}
		for t := range s.in.Steps {
			fitting := s.in.Fitting(j, t)
			for k := range p.Jobs[i].Options {
				price := cost(class, t, min(k, fitting-1))
				if k >= fitting { // No plan contains this size, so any price is high enough.
					price += 2 * j.Tail[0]
				}
				of.Prices = append(of.Prices, price*s.in.Unit)
			}
		}
		certificate = append(certificate, of)
	}
	return certificate
}
