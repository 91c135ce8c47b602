package checks

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestReleaseImages checks that the images of a release consist of the same files, with the same user and the same
// entrypoint, as the images that are built from the source.
func TestReleaseImages(t *testing.T) {
	release := stages(t, "Dockerfile.release")
	if len(release) != 3 {
		t.Fatalf("Dockerfile.release has %d stages; want base, controller and server", len(release))
	}
	for i, source := range []string{"Dockerfile.controller", "Dockerfile"} {
		built := stages(t, source)
		if want := built[len(built)-1]; !slices.Equal(release[i+1], want) {
			t.Errorf("Dockerfile.release has\n%s\n%s has\n%s", strings.Join(release[i+1], "\n"), source, strings.Join(want, "\n"))
		}
	}
}

// stages returns the instructions of each stage of a Dockerfile without FROM. Copied files have no folder of the build.
func stages(t *testing.T, name string) (all [][]string) {
	t.Helper()
	built := regexp.MustCompile(`/src/(bin/)?`)
	for line := range strings.Lines(string(readFile(t, "deploy", name))) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "FROM "):
			all = append(all, nil)
		case line == "" || strings.HasPrefix(line, "#") || len(all) == 0:
		case built.MatchString(line):
			line = strings.Replace(line, "--from=build ", "", 1)
			all[len(all)-1] = append(all[len(all)-1], built.ReplaceAllString(line, ""))
		default:
			all[len(all)-1] = append(all[len(all)-1], strings.Replace(line, "--from=build", "--from=base", 1))
		}
	}
	return all
}

// TestImageArchives writes the archives of both images from a release, and checks that they have the settings and the files
// of Dockerfile.release, and that the program of the server decides in them as the user of the image.
func TestImageArchives(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "elastalloc_0.1.0_linux_"+runtime.GOARCH)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(buildServer(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"elastalloc": program, "elastalloc-controller": program, "LICENSE": {'L'}, "NOTICE": {'N'}, "THIRD_PARTY_LICENSES": {'T'},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	write := exec.Command("go", "run", "./image", folder, runtime.GOARCH, "1700000000", out)
	if printed, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	for stage, name := range []string{1: "elastalloc-controller", 2: "elastalloc"} {
		if name == "" {
			continue
		}
		image, err := tarball.ImageFromPath(filepath.Join(out, name+"-image_0.1.0_linux_"+runtime.GOARCH+".tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(t.TempDir(), "root")
		paths := unpackImage(t, image, root)
		settings := []string{
			"USER " + config.Config.User,
			"EXPOSE " + strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(config.Config.ExposedPorts)), " "), "/tcp", ""),
			"ENTRYPOINT [" + quoted(config.Config.Entrypoint) + "]",
		}
		if len(config.Config.Cmd) > 0 {
			settings = append(settings, "CMD ["+quoted(config.Config.Cmd)+"]")
		}
		var want []string
		for _, instruction := range stages(t, "Dockerfile.release")[stage] {
			fields := strings.Fields(instruction)
			if target := fields[len(fields)-1]; fields[0] != "COPY" {
				want = append(want, instruction)
			} else if !slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix("/"+path, target) }) {
				t.Errorf("%s: %s: the archive has %q", name, instruction, paths)
			}
		}
		if !slices.Equal(settings, want) {
			t.Errorf("%s has the settings %q; want %q", name, settings, want)
		}
		if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Created.Unix() != 1700000000 {
			t.Errorf("%s is of %s, %s, %v", name, config.OS, config.Architecture, config.Created)
		}
		authorities, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
		if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(authorities) {
			t.Errorf("%s has no authorities: %v", name, err)
		}
		decideInImage(t, root, config.Config)
	}
}

// decideInImage runs the entrypoint of an image as its user in its root folder, with a snapshot on standard input.
func decideInImage(t *testing.T, root string, config v1.Config) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("the image is not run: this needs root")
		return
	}
	var user, group uint32
	if _, err := fmt.Sscanf(config.User, "%d:%d", &user, &group); err != nil {
		t.Fatal(err)
	}
	decide := exec.Command(config.Entrypoint[0], "allocate", "-f", "-")
	decide.Dir, decide.Env = "/", []string{}
	decide.Stdin = bytes.NewReader(readFile(t, "examples", "snapshot.json"))
	decide.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: group}}
	printed, err := decide.CombinedOutput()
	if err != nil || !bytes.Contains(printed, []byte("decided by")) {
		t.Errorf("%v\n%s", err, printed)
	}
}

// unpackImage unpacks the files of an image into a new folder and returns their paths.
func unpackImage(t *testing.T, image v1.Image, root string) (paths []string) {
	t.Helper()
	files := mutate.Extract(image)
	defer files.Close()
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(files)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return paths
		}
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, header.Name)
		path := filepath.Join(root, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, header.FileInfo().Mode())
			}
		}
		if err == nil {
			err = os.Chmod(path, header.FileInfo().Mode())
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Chown(path, header.Uid, header.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// quoted returns strings as in a list of a Dockerfile.
func quoted(all []string) string {
	var list []string
	for _, s := range all {
		list = append(list, strconv.Quote(s))
	}
	return strings.Join(list, ", ")
}
