package results

import "time"

// Origin says by what, when and where results were made.
type Origin struct {
	Command string    `json:"command"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	// Go is the version of Go, and OS, Arch and Cores describe the machine.
	Go    string `json:"go"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Cores int    `json:"cores"`
}
