// Package kinds knows how jobs of each kind are resized.
package kinds

// Names returns the kinds of jobs that the controller knows.
func Names() []string { return []string{"Job", "JobSet", "RayCluster", "PyTorchJob", "TrainJob"} }
