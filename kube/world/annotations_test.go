package world_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/kube/world"
)

// prefixed returns annotations with their prefix.
func prefixed(annotations map[string]string) map[string]string {
	all := make(map[string]string)
	for key, value := range annotations {
		all[world.Prefix+key] = value
	}
	return all
}

func TestParseWishes(t *testing.T) {
	t.Parallel()
	type annotations map[string]string
	tests := map[string]struct {
		annotations           annotations
		least, most, multiple int
		want                  world.JobAnnotations
	}{
		"none": {annotations{}, 0, 0, 1, world.JobAnnotations{Weight: 1, Sizes: []int{1, 2, 4, 8, 16}}},
		"all": {
			annotations{
				"work": "36h", "remaining": "90m", "progress": "0.25", "nodes": "1,3,6", "speeds": "1, 2.5,4.1",
				"restart": "90s", "weight": "2", "paused": "true",
			}, 0, 0, 1,
			world.JobAnnotations{
				Work: 36 * time.Hour, Remaining: 90 * time.Minute, Progress: new(0.25), Sizes: []int{1, 3, 6},
				Speeds: []float64{1, 2.5, 4.1}, Restart: 90 * time.Second, Weight: 2, Paused: true,
			},
		},
		"types": {
			annotations{"nodes": "1,2", "speeds": "a100=1,1.8; h100 = 2.5, 4"}, 0, 0, 1,
			world.JobAnnotations{Weight: 1, Sizes: []int{1, 2}, TypeSpeeds: map[string][]float64{"a100": {1, 1.8}, "h100": {2.5, 4}}},
		},
		"range": {annotations{"nodes": "2-12"}, 0, 0, 1, world.JobAnnotations{Weight: 1, Sizes: []int{2, 4, 8}}},
		"efficiency": {
			annotations{"doubling-efficiency": "0.9"}, 0, 0, 1, world.JobAnnotations{Weight: 1, Efficiency: 0.9, Sizes: []int{1, 2, 4, 8, 16}},
		},
		"limits of kind":  {annotations{}, 2, 8, 1, world.JobAnnotations{Weight: 1, Sizes: []int{2, 4, 8}}},
		"hosts of a kind": {annotations{}, 2, 8, 4, world.JobAnnotations{Weight: 1, Sizes: []int{4, 8}}},
		"no real limit":   {annotations{}, 1 << 19, 1<<31 - 1, 1, world.JobAnnotations{Weight: 1, Sizes: []int{1 << 19, 1 << 20}}},
		"three replicas":  {annotations{}, 0, 0, 3, world.JobAnnotations{Weight: 1, Sizes: []int{3, 6, 12}}},
		"weight 0":        {annotations{"weight": "0"}, 0, 1, 1, world.JobAnnotations{Sizes: []int{1}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := world.ParseAnnotations(prefixed(test.annotations), test.least, test.most, test.multiple)
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, error %v; want %+v", got, err, test.want)
			}
		})
	}
}

func TestOneErrorNamesEveryBadAnnotation(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"work": "36", "remaining": "-1h", "progress": "1.5", "nodes": "16-1", "speeds": "1,NaN",
		"restart": "soon", "weight": "heavy", "paused": "perhaps", "doubling-efficiency": "0",
	}
	annotations, err := world.ParseAnnotations(prefixed(bad), 0, 0, 1)
	if err == nil {
		t.Fatal("no error")
	}
	for name := range bad {
		if !strings.Contains(err.Error(), world.Prefix+name+": is") {
			t.Errorf("error does not name %s: %v", name, err)
		}
	}
	if !annotations.Paused {
		t.Error("a job with an invalid paused annotation is not paused")
	}
}

func TestBadAnnotations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		most        int
		multiple    int
	}{
		"descending":           {map[string]string{"nodes": "4,2"}, 0, 1},
		"twice":                {map[string]string{"nodes": "2,2"}, 0, 1},
		"zero":                 {map[string]string{"nodes": "0-4"}, 0, 1},
		"empty":                {map[string]string{"nodes": ""}, 0, 1},
		"no power of two":      {map[string]string{"nodes": "9-15"}, 0, 1},
		"beyond the kind":      {map[string]string{"nodes": "1-16"}, 8, 1},
		"half a host":          {map[string]string{"nodes": "1,2"}, 8, 2},
		"limits without sizes": {nil, 1, 4},
		"parts of billions":    {nil, 0, 1<<31 - 1},
		"too many": {
			map[string]string{"nodes": "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33"}, 0, 1,
		},
		"too few speeds": {map[string]string{"nodes": "1,2", "speeds": "1"}, 0, 1},
		"two curves":     {map[string]string{"nodes": "1,2", "speeds": "1,2", "doubling-efficiency": "0.8"}, 0, 1},
		"misspelt":       {map[string]string{"pauesd": "true"}, 0, 1},
		"ages":           {map[string]string{"work": "2562047h"}, 0, 1},
	} {
		if annotations, err := world.ParseAnnotations(prefixed(test.annotations), 0, test.most, test.multiple); err == nil {
			t.Errorf("%s gives %+v", name, annotations)
		}
	}
}

func TestSpeed(t *testing.T) {
	t.Parallel()
	curve := world.JobAnnotations{}
	table := world.JobAnnotations{Sizes: []int{2, 8}, Speeds: []float64{2, 4}}
	for _, test := range []struct {
		annotations *world.JobAnnotations
		nodes       int
		want        float64
	}{
		{&curve, 0, 0},
		{&curve, 1, 1},
		{&curve, 8, 8 * 0.8 * 0.8 * 0.8},
		{&table, 1, 2},
		{&table, 2, 2},
		{&table, 4, 2 * math.Sqrt2},
		{&table, 8, 4},
		{&table, 99, 4},
	} {
		if got := test.annotations.Speed(test.nodes); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("speed of %+v on %d nodes is %v; want %v", test.annotations, test.nodes, got, test.want)
		}
	}
}

func FuzzParseWishes(f *testing.F) {
	f.Add("1-16", "1,2,3,4,5", "36h", "0.5")
	f.Add("1,2", "1,2", "1s", "1")
	f.Fuzz(func(t *testing.T, nodes, speeds, work, progress string) {
		annotations, err := world.ParseAnnotations(prefixed(map[string]string{
			"nodes": nodes, "speeds": speeds, "work": work, "progress": progress,
		}), 0, 0, 1)
		if err != nil {
			return
		}
		if len(annotations.Sizes) == 0 || len(annotations.Sizes) > 32 ||
			len(annotations.Speeds) != len(annotations.Sizes) || annotations.Work <= 0 {
			t.Errorf("%+v", annotations)
		}
		for n := range 40 {
			if s := annotations.Speed(n); math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
				t.Errorf("speed %v on %d nodes of %+v", s, n, annotations)
			}
		}
	})
}
