package experiments

import "strconv"

// variants compares other policies with optimal in the baseline.
func (m *measures) variants() Experiment {
	e := Experiment{
		Name: "variants", Title: "Beyond the paper: other policies",
		Rows: m.rowsOf(baselineSetting, append([]string{optimalPolicy}, variantPolicies()...)...),
	}
	for _, policy := range variantPolicies() {
		against := func(quantity, unit string, f format, of func(*Row) Number, compare func(a, b []float64) []float64) {
			e.Results = append(e.Results, m.result(policy+": "+quantity, unit, f, nil, func(s Source) []float64 {
				return span(compare(m.means(baselineSetting, s, policy, of), m.means(baselineSetting, s, optimalPolicy, of)))
			}))
		}
		against("mean total time", "%", signedTenths, totalMinutes, changes)
		against("mean queueing time", "min", signedTenths, queueMinutes, differences)
		against("rescales", "%", signedTenths, rescales, changes)
	}
	policies := append([]string{greedyPolicy, optimalPolicy}, variantPolicies()...)
	e.table = table{Header: []string{
		"nodes", "workload", "policy", "queueing (min)", "total (min)", "additional per 100", "rescales",
	}}
	for _, nodes := range m.pools {
		for _, s := range m.sources {
			for _, policy := range policies {
				r := m.row(baselineSetting, s, policy, nodes)
				e.table.Rows = append(e.table.Rows, []string{
					strconv.Itoa(nodes), string(s), policy, tenths.writeSpread(queueMinutes(r), r.Runs),
					tenths.writeSpread(totalMinutes(r), r.Runs), signedTenths.writeSpread(extraJobs(r), r.Runs),
					whole.writeSpread(r.Rescales, r.Runs),
				})
			}
		}
	}
	for _, drawn := range []struct {
		name, title, label string
		of                 func(*Row) Number
	}{
		{"queueing", "Queueing time", "mean queueing time (min)", queueMinutes},
		{"total", "Total time", "mean total time (min)", totalMinutes},
		{"rescales", "Rescales", "rescales of all jobs", rescales},
	} {
		for _, s := range m.sources {
			e.figures = append(e.figures,
				m.linesOf(e.Name+"-"+drawn.name, drawn.title, drawn.label, baselineSetting, s, policies, drawn.of))
		}
	}
	return e
}

// bound compares policies with a bound on every policy's mean total time.
func (m *measures) bound() Experiment {
	policies := batchPolicies()
	e := Experiment{
		Name: "hesrpt-bound", Title: "Beyond the paper: the heSRPT bound",
		Rows: m.rowsOf(batchSetting, policies...),
		table: m.tabulate(func(s Source) []column {
			var columns []column
			for _, policy := range policies {
				columns = append(columns, m.column(policy, batchSetting, s, policy, overBound, threeDigits))
			}
			return columns
		}),
	}
	for _, policy := range policies {
		e.Results = append(e.Results, m.result(policy, "", threeDigits, nil, func(s Source) []float64 {
			return span(m.means(batchSetting, s, policy, overBound))
		}))
	}
	for _, s := range m.sources {
		e.figures = append(e.figures, m.linesOf(e.Name, "Mean total time by the heSRPT bound", "mean total time by the bound",
			batchSetting, s, policies, overBound))
	}
	return e
}
