// Package sim reads cluster traces and cuts snapshots out of them: what an
// allocator would have been asked at a moment of a real cluster's history.
package sim
