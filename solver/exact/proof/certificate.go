package proof

import (
	"github.com/elastalloc/elastalloc/solver/problem"
)

// Certificate returns the prices per size of the root in units of the objective, or nil where
// none were sought: the plan and the node prices of the result then say it all.
func (s *Search) Certificate(p *problem.Problem) (certificate problem.Certificate) {
	if s.sizesAt == nil {
		return nil
	}
	cost := s.sizes.CostAt(s.sizesAt)
	for f, i := range s.in.Finishing {
		j, class := &s.in.Jobs[i], s.sizes.ClassOf[f]
		of := problem.SizePrices{Job: i}
		for t := range s.in.Steps {
			fitting := s.in.Fitting(j, t)
			for k := range p.Jobs[i].Options {
				price := cost(class, t, min(k, fitting-1))
				if k >= fitting { // It is in no plan: no price is too high.
					price += 2 * j.Tail[0]
				}
				of.Prices = append(of.Prices, price*s.in.Unit)
			}
		}
		certificate = append(certificate, of)
	}
	return certificate
}
