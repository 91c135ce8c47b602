package controller

import (
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/elastalloc/elastalloc/kube/world"
)

// writeCache contains the results of a loop's writes until the informer caches have them, so that a loop never
// plans with jobs older than its own writes. Loop.patch records the results, and Loop.list reads them. A loop
// fills the cache from the API server at its start, so nothing has to survive a restart.
type writeCache struct {
	mu      sync.Mutex // for written and failed, which parallel writes call
	objects map[types.UID]*unstructured.Unstructured
	// primed is true if the jobs were read from the API server after the last write with an unknown result:
	// a write by an earlier leader, or a write without a response.
	primed bool
}

// prime stores jobs that were read from the API server.
func (c *writeCache) prime(jobs []world.Object) {
	for _, job := range jobs {
		c.objects[job.Job.GetUID()] = job.Job
		if job.Child != nil {
			c.objects[job.Child.GetUID()] = job.Child
		}
	}
	c.primed = true
}

// written stores the result of a write.
func (c *writeCache) written(object *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[object.GetUID()] = object
}

// failed records that a write failed. Unless the API server rejected the write, it may have been applied.
func (c *writeCache) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.primed = c.primed && (refused(err) || apierrors.IsNotFound(err))
}

// newest returns an object of the informer cache, or the stored one if that is newer.
func (c *writeCache) newest(cached *unstructured.Unstructured) *unstructured.Unstructured {
	stored := c.objects[cached.GetUID()]
	if stored == nil {
		return cached
	}
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), stored.GetResourceVersion())
	if err != nil || order < 0 {
		return stored
	}
	delete(c.objects, cached.GetUID())
	return cached
}

// retain removes the objects of all other jobs, which were deleted.
func (c *writeCache) retain(jobs []*world.Job) {
	maps.DeleteFunc(c.objects, func(uid types.UID, _ *unstructured.Unstructured) bool {
		return !slices.ContainsFunc(jobs, func(j *world.Job) bool {
			return j.UID == uid || j.Child != nil && j.Child.GetUID() == uid
		})
	})
}
