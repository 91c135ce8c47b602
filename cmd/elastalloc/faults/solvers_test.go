//go:build unix

package faults

import (
	"testing"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func TestMissingSolver(t *testing.T) {
	t.Parallel()
	for name, backend := range map[string]elastallocv1.Backend{
		"cbc": elastallocv1.Backend_BACKEND_CBC, "highs": elastallocv1.Backend_BACKEND_HIGHS,
	} {
		server := startServer(t, "--backends="+name+",exact", "--"+name+"=/nonexistent/"+name)
		if up, found := metric(t, server, `elastalloc_backend_up{backend="`+name+`"}`); up != 0 || !found {
			t.Errorf("elastalloc_backend_up of %s is %v, %v; want 0", name, up, found)
		}
		request := drawnRequest(40, 70, 1)
		request.Options = &elastallocv1.AllocateOptions{Backend: backend}
		response, err := newAllocator(t, server).Allocate(t.Context(), request)
		if err != nil || response.GetReport().GetReason() != elastallocv1.Reason_REASON_OPTIMAL {
			t.Errorf("without %s: %v, %v; want an optimum", name, response.GetReport(), err)
		}
	}
}
