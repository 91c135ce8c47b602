package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	promconfig "github.com/prometheus/common/config"
)

// prometheusFile configures the connection to a Prometheus server: its address only, or an object with the
// fields of Prometheus' HTTP client configuration.
type prometheusFile struct {
	Address         string         `json:"address"`
	BearerTokenFile string         `json:"bearerTokenFile"`
	BasicAuth       *basicAuthFile `json:"basicAuth"`
	TLS             tlsFile        `json:"tls"`
}

type basicAuthFile struct {
	Username     string `json:"username"`
	UsernameFile string `json:"usernameFile"`
	Password     string `json:"password"`
	PasswordFile string `json:"passwordFile"`
}

type tlsFile struct {
	CAFile             string `json:"caFile"`
	CertFile           string `json:"certFile"`
	KeyFile            string `json:"keyFile"`
	ServerName         string `json:"serverName"`
	InsecureSkipVerify bool   `json:"insecureSkipVerify"`
}

// UnmarshalJSON decodes an address, or an object without unknown fields.
func (f *prometheusFile) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		return json.Unmarshal(text, &f.Address)
	}
	type object prometheusFile // A type without this method.
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*object)(f)); err != nil {
		return fmt.Errorf("prometheus: %s; must be an address, or an object of address, bearerTokenFile, basicAuth and tls",
			strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// prometheus returns the HTTP client configuration for a Prometheus server.
func (c *checker) prometheus(f *prometheusFile) promconfig.HTTPClientConfig {
	switch {
	case *f == prometheusFile{}:
		return promconfig.HTTPClientConfig{}
	case f.Address == "":
		c.bad("prometheus.address", "is missing; must be an address such as http://prometheus.monitoring.svc:9090")
		return promconfig.HTTPClientConfig{}
	}
	client := promconfig.DefaultHTTPClientConfig
	if u, err := url.Parse(f.Address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		c.bad("prometheus", "is %q; must be an address such as http://prometheus.monitoring.svc:9090", f.Address)
	}
	if f.BearerTokenFile != "" && f.BasicAuth != nil {
		c.bad("prometheus", "has both bearerTokenFile and basicAuth; must have only one of them")
		return client
	}
	if f.BearerTokenFile != "" {
		client.Authorization = &promconfig.Authorization{Type: "Bearer", CredentialsFile: f.BearerTokenFile}
	}
	if b := f.BasicAuth; b != nil {
		if (b.Username == "") == (b.UsernameFile == "") || b.Password != "" && b.PasswordFile != "" {
			c.bad("prometheus.basicAuth",
				"is invalid; must have exactly one of username and usernameFile, and at most one of password and passwordFile")
		}
		client.BasicAuth = &promconfig.BasicAuth{
			Username: b.Username, UsernameFile: b.UsernameFile, Password: promconfig.Secret(b.Password), PasswordFile: b.PasswordFile,
		}
	}
	if (f.TLS.CertFile == "") != (f.TLS.KeyFile == "") {
		c.bad("prometheus.tls", "has one of certFile and keyFile; must have both or neither")
	}
	client.TLSConfig = promconfig.TLSConfig{
		CAFile: f.TLS.CAFile, CertFile: f.TLS.CertFile, KeyFile: f.TLS.KeyFile,
		ServerName: f.TLS.ServerName, InsecureSkipVerify: f.TLS.InsecureSkipVerify,
	}
	return client
}
