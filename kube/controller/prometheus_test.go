package controller_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
)

// prometheusAnswers answers every query with a vector, in which %d stands for the time.
func prometheusAnswers(vector string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		at := worldtest.Begin().Unix() + 3600
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.ReplaceAll(vector, "%d", fmt.Sprint(at)))
	})
}
