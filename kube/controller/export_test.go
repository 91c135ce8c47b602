package controller

var (
	// ToPools is which pools an event concerns.
	ToPools = toPools
	// TellUnknown posts events on jobs of pools that no controller has.
	TellUnknown = postUnknownPoolEvents
	// SlimPod and SlimNode drop what is not read of pods and nodes.
	SlimPod, SlimNode = slimPod, slimNode
)
