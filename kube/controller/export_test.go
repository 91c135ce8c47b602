package controller

var (
	// ToPools returns the pools that an event concerns.
	ToPools = toPools
	// PostUnknownPoolEvents posts events on jobs of pools that no controller has.
	PostUnknownPoolEvents = postUnknownPoolEvents
	// SlimPod and SlimNode remove the fields of pods and nodes that are not read.
	SlimPod, SlimNode = slimPod, slimNode
)
