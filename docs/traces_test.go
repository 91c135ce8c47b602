package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTraces converts a few lines of each history that scripts/traces.py reads. They are out
// of order, and some jobs have no GPUs or never ran.
func TestTraces(t *testing.T) {
	needTools(t, "python3")
	for source, test := range map[string]struct {
		files []string // Of one, the standard input.
		want  string
	}{
		"slurm": {
			[]string{
				"8|2026-05-01T10:00:30|2026-05-01T10:10:00|60|cpu=8,gres/gpu=16,node=2|ann|vision\n" +
					"7|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|billing=1,gres/gpu=4|bob|speech\n" +
					"9|2026-05-01T10:01:00|Unknown|0|gres/gpu=4|bob|speech\n" +
					"10|2026-05-01T10:02:00|2026-05-01T10:02:00|60|cpu=8|bob|speech\n",
			},
			"job_id,submit_s,start_s,duration_s,gpus,user,group\n7,0.0,5,3600,4,bob,speech\n8,30.0,600,60,16,ann,vision\n",
		},
		"helios": {
			[]string{
				"job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n" +
					"2,u1,8.0,64,1,COMPLETED,2020-05-01 00:01:00,,,100,0\n1,u2,1,8,1,FAILED,2020-05-01 00:00:00,,,7.5,0\n" +
					"3,u2,0,8,1,COMPLETED,2020-05-01 00:02:00,,,7,0\n4,u2,1,8,1,CANCELLED,2020-05-01 00:02:00,,,,0\n",
			},
			"job_id,submit_s,duration_s,gpus,user,status\n1,0.0,7.5,1,u2,FAILED\n2,60.0,100,8,u1,COMPLETED\n",
		},
		"philly": {
			[]string{`[
				{"jobid": "b", "user": "u", "status": "Pass", "submitted_time": "2017-10-01 00:00:10", "attempts": [
					{"start_time": "2017-10-01 00:01:00", "end_time": "2017-10-01 00:02:00", "detail": [{"gpus": ["0"]}]},
					{"start_time": "2017-10-01 00:05:00", "end_time": "2017-10-01 00:05:30", "detail": [{"gpus": ["0", "1"]}, {"gpus": ["0"]}]},
					{"start_time": "2017-10-01 00:06:00", "end_time": "None", "detail": []}]},
				{"jobid": "a", "user": "u", "status": "Killed", "submitted_time": "2017-10-01 00:00:00", "attempts": [
					{"start_time": "2017-10-01 00:00:01", "end_time": "2017-10-01 00:00:03", "detail": [{"gpus": ["0"]}]}]},
				{"jobid": "never ran", "user": "u", "status": "Killed", "submitted_time": "2017-10-01 00:00:00", "attempts": []}]`},
			"job_id,submit_s,duration_s,gpus,user,status\na,0.0,2.0,1,u,Killed\nb,10.0,90.0,3,u,Pass\n",
		},
		"itp": {
			[]string{"job_id,num_gpu,submission_time,duration\nb,8,1020,700\na,1,1000.5,600\n"},
			"job_id,submit_s,duration_s,gpus\na,0.0,600,1\nb,19.5,700,8\n",
		},
		"pai": {
			[]string{
				"b,i,u,Terminated,30,99\na,i,u,Failed,10,99\nsmall,i,u,Terminated,20,99\nqueued,i,u,Waiting,20,\n",
				"b,ps,1,Terminated,40,90,600,29,0,\nb,worker,3,Terminated,50,100,600,29,50,V100\na,worker,1,Failed,12,13,600,29,100,P100\n" +
					"small,worker,1,Terminated,20,30,600,29,50,T4\nqueued,worker,2,Waiting,,,600,29,100,T4\n",
			},
			"job_id,submit_s,duration_s,gpus,user,status\na,0.0,1.0,1,u,Failed\nb,20.0,60.0,2,u,Terminated\n",
		},
	} {
		t.Run(source, func(t *testing.T) {
			arguments := []string{filepath.Join(root, "scripts", "traces.py"), source}
			input := ""
			if len(test.files) == 1 {
				input = test.files[0]
			} else {
				for _, text := range test.files {
					file := filepath.Join(t.TempDir(), "table.csv")
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					arguments = append(arguments, file)
				}
			}
			command := exec.Command("python3", arguments...)
			command.Stdin = strings.NewReader(input)
			got, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
