package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Page returns what the admin address of the server answers to a GET of a path. It is
// an error if that is not OK.
func (s *Server) Page(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.AdminAddr+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", path, response.Status, text)
	}
	return string(text), nil
}

// Metrics returns every series of /metrics by its name and labels, as they stand
// there.
func (s *Server) Metrics(ctx context.Context) (map[string]float64, error) {
	page, err := s.Page(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	shown := map[string]float64{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics shows %q: %w", line, err)
		}
		shown[line[:space]] = value
	}
	return shown, nil
}
