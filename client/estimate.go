package client

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client/eta"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// SetEstimate sets remaining_eta, eta_nodes, eta_error, work_done and overrun of a job.
func SetEstimate(job *elastallocv1.Job, e eta.Estimate) {
	job.RemainingEta, job.EtaNodes, job.EtaError = durationpb.New(e.ETA), &e.Nodes, &e.Error
	job.WorkDone, job.Overrun = durationpb.New(e.WorkDone), e.Overrun
}
