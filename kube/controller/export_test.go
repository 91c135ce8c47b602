package controller

// ToPools is which pools an event concerns.
var ToPools = toPools
