package client

import (
	"fmt"
	"net"
	"strings"
	"unicode"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// checkTarget returns an error for a target that gRPC would take for another one: it adds
// port 443 where there is none, and takes a URL for a name.
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
			return fmt.Errorf("target is %q; want host:port, such as localhost:50051", target)
		}
	}
	return nil
}

// listResolver resolves to a comma-separated list of servers.
func listResolver(list string) *manual.Resolver {
	var endpoints []resolver.Endpoint
	for address := range strings.SplitSeq(list, ",") {
		address = strings.TrimSpace(address)
		// Each server shows a certificate of its own name, not of the list's.
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address, ServerName: address}}})
	}
	r := manual.NewBuilderWithScheme("list")
	r.InitialState(resolver.State{Endpoints: endpoints})
	return r
}
