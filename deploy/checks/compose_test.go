package checks

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeProject returns the compose file, checked against its schema.
func composeProject(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{atRoot(t, "deploy", "compose", "compose.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestCompose checks the compose file, that what it mounts is there and that nothing
// is reached from beyond this machine.
func TestCompose(t *testing.T) {
	project := composeProject(t)
	for name, service := range project.Services {
		for _, volume := range service.Volumes {
			if _, err := os.Stat(volume.Source); volume.Type == "bind" && err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s can be reached from everywhere at port %s", name, port.Published)
			}
		}
	}
	server, err := project.GetService("elastalloc")
	if err != nil {
		t.Fatal(err)
	}
	record := ""
	for _, volume := range server.Volumes {
		if volume.Type == types.VolumeTypeVolume && strings.HasPrefix(flagOf(server.Command, "record"), volume.Target+"/") {
			record = volume.Target
		}
	}
	if record == "" || flagOf(server.Command, "record-max-bytes") == "" {
		t.Errorf("the server does not record on a volume within a size limit: %q, %v", server.Command, server.Volumes)
	}
	// Docker gives the volume the owner that its folder has in the image.
	if folder := "/state/" + path.Base(record); !strings.Contains(string(readFile(t, "deploy", "Dockerfile")), "mkdir -m 0700 "+folder+"\n") {
		t.Errorf("the image has no folder %s of the server's user", record)
	}
	if !server.ReadOnly || len(server.CapDrop) != 1 || server.CapDrop[0] != "ALL" {
		t.Errorf("the server may write or has capabilities: read-only %t, dropped %v", server.ReadOnly, server.CapDrop)
	}
}
