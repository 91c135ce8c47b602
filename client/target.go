package client

import (
	"fmt"
	"net"
	"strings"
	"unicode"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// checkTarget returns an error for a target that gRPC would misinterpret: it would add port 443 to a
// target without a port, and resolve a URL as a name.
func checkTarget(target string) error {
	scheme, rest, _ := strings.Cut(target, ":")
	switch {
	case scheme == "http", scheme == "https":
	case strings.HasPrefix(rest, "//"), scheme != "" && resolver.Get(scheme) != nil:
		return nil
	}
	for address := range strings.SplitSeq(target, ",") {
		address = strings.TrimSpace(address)
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" || strings.ContainsFunc(address, func(r rune) bool { return r == '/' || unicode.IsSpace(r) }) {
			return fmt.Errorf("target is %q; must be host:port, for example localhost:50051", target)
		}
	}
	return nil
}

// listResolver resolves to a comma-separated list of servers.
func listResolver(list string) *manual.Resolver {
	var endpoints []resolver.Endpoint
	for address := range strings.SplitSeq(list, ",") {
		address = strings.TrimSpace(address)
		// The certificate of each server has its own name, not the name of the list.
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address, ServerName: address}}})
	}
	r := manual.NewBuilderWithScheme("list")
	r.InitialState(resolver.State{Endpoints: endpoints})
	return r
}
