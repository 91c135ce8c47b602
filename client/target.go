package client

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// parseTarget returns the gRPC target, or the list of servers, of a target of New. It returns an error for a target
// that gRPC would misinterpret: it would add port 443 to a name without a port, and resolve a URL as a name. Schemes
// that are not registered are allowed if resolvers may be among the options. The Python client has the same rules.
func parseTarget(target string, anyScheme bool) (string, error) {
	scheme, rest, _ := strings.Cut(target, ":")
	switch {
	case scheme == "ipv4", scheme == "ipv6":
		return rest, checkAddresses(target, rest)
	case scheme == "unix":
		if path, authority := strings.CutPrefix(rest, "//"); path == "" || authority && path[0] != '/' {
			return "", fmt.Errorf("target is %q; must be unix:///path or unix:path", target)
		}
		return target, nil
	case scheme == "dns":
		endpoint, hasAuthority := strings.CutPrefix(rest, "//")
		if hasAuthority {
			_, endpoint, _ = strings.Cut(endpoint, "/")
		}
		if !isAddress(endpoint) {
			return "", fmt.Errorf("target is %q; must be dns:///host:port", target)
		}
		return target, nil
	case scheme != "" && resolver.Get(scheme) != nil, anyScheme && strings.HasPrefix(rest, "//"):
		return target, nil
	}
	return target, checkAddresses(target, target)
}

// checkAddresses returns an error if the addresses of a target are not a list of host:port.
func checkAddresses(target, addresses string) error {
	for address := range strings.SplitSeq(addresses, ",") {
		if !isAddress(strings.TrimSpace(address)) {
			return fmt.Errorf("target is %q; must be host:port, for example localhost:50051", target)
		}
	}
	return nil
}

// isAddress reports whether an address is host:port.
func isAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsFunc(address, func(r rune) bool { return r == '/' || unicode.IsSpace(r) }) {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
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
