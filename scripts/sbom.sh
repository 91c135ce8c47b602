#!/usr/bin/env bash
# Prints the bill of materials of Go programs of one version, in CycloneDX 1.6 as JSON: the
# modules that they link, as the Go command has written them into the binaries. The same
# binaries give the same bytes.
#
#   scripts/sbom.sh NAME BINARY…
set -euo pipefail
name=$1
shift
go version -m -json "$@" | jq --slurp --arg name "$name" '
  def library($path; $version): "pkg:golang/\($path)@\($version)" as $url |
    {type: "library", "bom-ref": $url, name: $path, version: $version, purl: $url};
  map((.Path | split("/") | last) as $program | {
    program: {type: "application", "bom-ref": $program, name: $program, version: .Main.Version},
    # A module that a folder replaces is our own.
    links: [
      library("std"; .GoVersion | ltrimstr("go")),
      (.Deps[]? | .Replace // . | select(.Path | startswith(".") | not) | library(.Path; .Version))
    ]
  }) | {
    bomFormat: "CycloneDX", specVersion: "1.6", version: 1,
    metadata: {component: {type: "application", "bom-ref": $name, name: $name, version: .[-1].program.version}},
    components: (map(.program) + (map(.links[]) | unique_by(."bom-ref"))),
    dependencies: (
      [{ref: $name, dependsOn: map(.program."bom-ref")}] +
      map({ref: .program."bom-ref", dependsOn: (.links | map(."bom-ref"))})
    )
  }'
