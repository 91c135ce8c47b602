package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// The variables. Those of an OTLP exporter exist for traces alone as well, which win.
const (
	envDisabled           = "OTEL_SDK_DISABLED"
	envExporter           = "OTEL_TRACES_EXPORTER"
	envPropagators        = "OTEL_PROPAGATORS"
	envSampler            = "OTEL_TRACES_SAMPLER"
	envSamplerArgument    = "OTEL_TRACES_SAMPLER_ARG"
	envResourceAttributes = "OTEL_RESOURCE_ATTRIBUTES"
	envOTLP               = "OTEL_EXPORTER_OTLP_"
	envOTLPTraces         = "OTEL_EXPORTER_OTLP_TRACES_"
)

// The values that they may have.
const (
	exporterNone    = "none"
	exporterOTLP    = "otlp"
	exporterConsole = "console"

	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// settings are what the variables ask for.
type settings struct {
	// exporters are names; none means that tracing is off.
	exporters []string
	protocol  string
	// hasEndpoint says that the variables name a collector.
	hasEndpoint bool
	propagator  propagation.TextMapPropagator
}

// environment reads variables and collects those of a wrong value.
type environment struct {
	getenv func(string) string
	bad    []error
}

// read returns what the variables ask for, or an error that names every one of a wrong
// value. Where tracing is off, the others are nobody's business.
func read(getenv func(string) string) (settings, error) {
	e := &environment{getenv: getenv}
	if e.boolean(envDisabled) {
		return settings{}, nil
	}
	s := settings{exporters: e.exporters()}
	if len(s.exporters) == 0 && len(e.bad) == 0 {
		return settings{}, nil
	}
	s.protocol, s.hasEndpoint, s.propagator = e.protocol(), e.hasEndpoint(), e.propagator()
	e.checkSampler()
	e.checkPairs(envResourceAttributes)
	e.checkNumbers()
	for _, prefix := range []string{envOTLP, envOTLPTraces} {
		e.checkOTLP(prefix)
	}
	return s, errors.Join(e.bad...)
}

// get returns the value of a variable. One of spaces counts as unset, as an empty one
// does.
func (e *environment) get(name string) string { return strings.TrimSpace(e.getenv(name)) }

// list returns the parts of a value that commas separate.
func (e *environment) list(name string) []string {
	var parts []string
	for part := range strings.SplitSeq(e.get(name), ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// addf notes what is wrong with a variable.
func (e *environment) addf(name, format string, args ...any) {
	e.bad = append(e.bad, fmt.Errorf("environment variable %s "+format, append([]any{name}, args...)...))
}

// oneOf returns the value of a variable, or the first of those that it may have where it
// is unset.
func (e *environment) oneOf(name string, values ...string) string {
	return e.oneOfThese(name, e.get(name), values)
}

// oneOfThese is oneOf for a value that is compared in another spelling.
func (e *environment) oneOfThese(name, value string, values []string) string {
	if value == "" {
		return values[0]
	}
	if !slices.Contains(values, value) {
		e.addf(name, "is %q; want one of %s", value, strings.Join(values, ", "))
	}
	return value
}

// boolean returns whether a variable is true, in any case of letters.
func (e *environment) boolean(name string) bool {
	return e.oneOfThese(name, strings.ToLower(e.get(name)), []string{"false", "true"}) == "true"
}

// exporters returns the names of the exporters, none where nobody asks for one.
func (e *environment) exporters() []string {
	names := e.list(envExporter)
	switch {
	case len(names) == 0 && e.hasEndpoint():
		return []string{exporterOTLP}
	case slices.Equal(names, []string{exporterNone}):
		return nil
	}
	for i, name := range names {
		if name != exporterOTLP && name != exporterConsole {
			e.addf(envExporter, "names %q; want %s, %s or both, or %s alone", name, exporterOTLP, exporterConsole, exporterNone)
		}
		if slices.Contains(names[:i], name) {
			e.addf(envExporter, "names %q twice", name)
		}
	}
	return names
}

// hasEndpoint reports whether the variables name a collector.
func (e *environment) hasEndpoint() bool {
	return e.get(envOTLP+"ENDPOINT") != "" || e.get(envOTLPTraces+"ENDPOINT") != ""
}

// protocol returns the protocol of an OTLP exporter.
func (e *environment) protocol() string {
	protocols := []string{protocolHTTP, protocolGRPC}
	protocol := e.oneOf(envOTLP+"PROTOCOL", protocols...)
	if e.get(envOTLPTraces+"PROTOCOL") != "" {
		protocol = e.oneOf(envOTLPTraces+"PROTOCOL", protocols...)
	}
	return protocol
}

// propagator returns what reads the caller's span: W3C trace context and baggage where
// nobody says otherwise.
func (e *environment) propagator() propagation.TextMapPropagator {
	known := map[string]propagation.TextMapPropagator{
		"tracecontext": propagation.TraceContext{},
		"baggage":      propagation.Baggage{},
	}
	names := e.list(envPropagators)
	if len(names) == 0 {
		names = []string{"tracecontext", "baggage"}
	}
	var chosen []propagation.TextMapPropagator
	for _, name := range names {
		propagator, ok := known[name]
		if ok {
			chosen = append(chosen, propagator)
		} else if !slices.Equal(names, []string{"none"}) {
			e.addf(envPropagators, "names %q; want tracecontext, baggage or both, or none alone", name)
		}
	}
	return propagation.NewCompositeTextMapPropagator(chosen...)
}

// checkSampler checks which share of the calls is traced. The argument counts only for
// the samplers that have one.
func (e *environment) checkSampler() {
	sampler := e.oneOfThese(envSampler, strings.ToLower(e.get(envSampler)), []string{
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
		"always_on", "always_off", "traceidratio",
	})
	argument := e.get(envSamplerArgument)
	if argument == "" || !strings.HasSuffix(sampler, "traceidratio") {
		return
	}
	if ratio, err := strconv.ParseFloat(argument, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		e.addf(envSamplerArgument, "is %q; want a share from 0 to 1", argument)
	}
}

// checkNumbers checks the sizes of the batches and the limits of a span.
func (e *environment) checkNumbers() {
	for _, name := range []string{
		"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
	} {
		e.checkNumber(name, 1, "at least 1")
	}
	// A negative limit is none.
	for _, name := range []string{
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT",
		"OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	} {
		e.checkNumber(name, math.MinInt, "a number")
	}
}

// checkNumber checks that a variable is a whole number of at least the least.
func (e *environment) checkNumber(name string, least int, want string) {
	value := e.get(name)
	if value == "" {
		return
	}
	if number, err := strconv.Atoi(value); err != nil || number < least {
		e.addf(name, "is %q; want %s", value, want)
	}
}

// checkPairs checks a list of key=value, the value percent-encoded. The values may be
// secrets, so they are not quoted.
func (e *environment) checkPairs(name string) {
	for i, pair := range e.list(name) {
		key, value, found := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		if !found || strings.TrimSpace(key) == "" || err != nil {
			e.addf(name, "is wrong in entry %d; want key=value,key=value with the values percent-encoded", i+1)
		}
	}
}

// checkOTLP checks the variables of an OTLP exporter that begin with prefix.
func (e *environment) checkOTLP(prefix string) {
	if endpoint := e.get(prefix + "ENDPOINT"); endpoint != "" {
		// A wrong one may hold a password.
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			e.addf(prefix+"ENDPOINT", "is no URL of a collector; want such as http://collector:4318")
		}
	}
	e.boolean(prefix + "INSECURE")
	e.oneOf(prefix+"COMPRESSION", "none", "gzip")
	e.checkNumber(prefix+"TIMEOUT", 1, "milliseconds, at least 1")
	e.checkPairs(prefix + "HEADERS")
	e.checkCertificates(prefix)
}

// checkCertificates checks the files with whom the collector is trusted and what it is
// shown.
func (e *environment) checkCertificates(prefix string) {
	if file := e.get(prefix + "CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s holds no PEM certificate", file)
		}
		if err != nil {
			e.addf(prefix+"CERTIFICATE", "cannot be used: %w", err)
		}
	}
	certificate, key := e.get(prefix+"CLIENT_CERTIFICATE"), e.get(prefix+"CLIENT_KEY")
	if certificate == "" && key == "" {
		return
	}
	if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
		e.addf(prefix+"CLIENT_CERTIFICATE", "and %sCLIENT_KEY cannot be used: %w", prefix, err)
	}
}
