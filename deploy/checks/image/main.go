// Command image writes the container images of a release, which deploy/Dockerfile.release describes, without a container
// engine. Docker, Podman and containerd load the archives. The same files give the same bytes.
//
//	image FOLDER ARCHITECTURE TIME OUT
//
// FOLDER is an unpacked release for Linux on ARCHITECTURE, TIME its time in seconds since 1970, and OUT the folder of the archives.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and the group of the process in both images.
const user = 65532

// authorities is the path of the certificates of public authorities in an image.
const authorities = "etc/ssl/certs/ca-certificates.crt"

// image is an image without its files.
type image struct {
	program string
	ports   []string
	command []string
	folders []tar.Header // that the program writes to
}

// images returns the images of a release.
func images() []image {
	return []image{
		{
			program: "elastalloc", ports: []string{"50051", "9464"}, command: []string{"serve"},
			folders: []tar.Header{
				{Name: "tmp/", Mode: 0o1777},
				{Name: "var/lib/elastalloc/", Mode: 0o700, Uid: user, Gid: user},
			},
		},
		{program: "elastalloc-controller", ports: []string{"9464"}},
	}
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: image FOLDER ARCHITECTURE TIME OUT")
		os.Exit(2)
	}
	if err := writeAll(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// writeAll writes the archives of all images. The name of the folder is elastalloc_VERSION_linux_ARCHITECTURE.
func writeAll(folder, architecture, created, out string) error {
	seconds, err := strconv.ParseInt(created, 10, 64)
	if err != nil {
		return err
	}
	version, isRelease := strings.CutPrefix(filepath.Base(folder), "elastalloc_")
	version, isLinux := strings.CutSuffix(version, "_linux_"+architecture)
	if !isRelease || !isLinux {
		return fmt.Errorf("folder: is %s; must be elastalloc_VERSION_linux_%s", filepath.Base(folder), architecture)
	}
	for _, i := range images() {
		// A tag has no plus sign, which versions of Go may have.
		tag, err := name.NewTag(i.program + ":" + strings.ReplaceAll(version, "+", "-"))
		if err != nil {
			return err
		}
		built, err := i.build(folder, architecture, time.Unix(seconds, 0).UTC())
		if err != nil {
			return err
		}
		file := filepath.Join(out, fmt.Sprintf("%s-image_%s_linux_%s.tar", i.program, version, architecture))
		if err := tarball.WriteToFile(file, tag, built); err != nil {
			return err
		}
	}
	return nil
}

// build returns the image with the program of an unpacked release.
func (i image) build(folder, architecture string, created time.Time) (v1.Image, error) {
	files, err := i.files(folder, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return nil, err
	}
	built, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	ports := map[string]struct{}{}
	for _, port := range i.ports {
		ports[port+"/tcp"] = struct{}{}
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, v1.Time{Time: created}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		ExposedPorts: ports,
		Entrypoint:   []string{"/usr/local/bin/" + i.program},
		Cmd:          i.command,
	}
	return mutate.ConfigFile(built, config)
}

// files returns the only layer of the image as a tar archive.
func (i image) files(folder string, created time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	add := func(header tar.Header, content []byte) error {
		header.Format, header.ModTime, header.Size = tar.FormatUSTAR, created, int64(len(content))
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	for _, parent := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/", "var/", "var/lib/"} {
		if err := add(tar.Header{Name: parent, Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	for _, header := range i.folders {
		if err := add(header, nil); err != nil {
			return nil, err
		}
	}
	if err := add(tar.Header{Name: authorities, Mode: 0o644}, publicAuthorities()); err != nil {
		return nil, err
	}
	for _, source := range []string{i.program, "LICENSE", "NOTICE", "THIRD_PARTY_LICENSES"} {
		content, err := os.ReadFile(filepath.Join(folder, source)) //nolint:gosec // The caller names the folder.
		if err != nil {
			return nil, err
		}
		header := tar.Header{Name: source, Mode: 0o644}
		if source == i.program {
			header = tar.Header{Name: "usr/local/bin/" + source, Mode: 0o755}
		}
		if err := add(header, content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return buffer.Bytes(), err
}

// publicAuthorities returns the certificates that Mozilla trusts for servers, without those that it trusts only partly.
func publicAuthorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // A buffer has no errors.
		}
	}
	return all.Bytes()
}
