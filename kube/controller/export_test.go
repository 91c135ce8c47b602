package controller

var (
	// ToPools is which pools an event concerns.
	ToPools = toPools
	// TellUnknown posts events on jobs of pools that no controller has.
	TellUnknown = tellUnknown
)
