package convert

import (
	"encoding/csv"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/sim"
)

// berlin is a zone with daylight saving time: on 2026-10-25, 03:00 is followed by 02:00.
func berlin(tb rapid.TB) *time.Location {
	tb.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		tb.Fatal(err)
	}
	return zone
}

// convert reads files, which it names a, b and so on.
func convert(tb rapid.TB, source Source, files ...string) (*History, error) {
	tb.Helper()
	c := New(source, berlin(tb))
	for i, text := range files {
		if err := c.Read(string(rune('a'+i)), strings.NewReader(text)); err != nil {
			return nil, err
		}
	}
	return c.Finish()
}

// check compares what files are converted to: the trace as CSV, then the remarks.
func check(t *testing.T, source Source, want string, files ...string) {
	t.Helper()
	history, err := convert(t, source, files...)
	if err != nil {
		t.Errorf("%q: %v", files, err)
		return
	}
	var got strings.Builder
	if err := history.Trace.Write(&got); err != nil {
		t.Fatal(err)
	}
	for _, remark := range history.Remarks {
		got.WriteString(remark.String() + "\n")
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("%q (-want +got):\n%s", files, diff)
	}
}

const slurmHeader = "job_id,submit_s,duration_s,gpus,start_s,user,group\n"

func TestSlurm(t *testing.T) {
	const kept = slurmHeader + "7,0,3600,4,5,bob,speech\n"
	const line = "7|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|billing=1,gres/gpu=4|bob|speech"
	for name, test := range map[string]struct{ text, want string }{
		"wrong order": {
			"8|2026-05-01T10:00:30|2026-05-01T10:10:00|60|cpu=8,gres/gpu=16,node=2|ann|vision\n" + line,
			kept + "8,30,60,16,600,ann,vision\n",
		},
		"header, other columns, another order": {
			"User|Account|Partition|AllocTRES|JobID|Submit|Start|ElapsedRaw\n" +
				"bob|speech|gpu|gres/gpu=4|7|2026-05-01T10:00:00|2026-05-01T10:00:05|3600\n",
			kept,
		},
		"JobIDRaw before JobID": {
			"JobID|JobIDRaw|User|Account|AllocTRES|Submit|Start|ElapsedRaw\n" +
				"6_1|7|bob|speech|gres/gpu=4|2026-05-01T10:00:00|2026-05-01T10:00:05|3600\n",
			kept,
		},
		"parsable, CRLF, empty lines, files appended": {
			"JobIDRaw|Submit|Start|ElapsedRaw|AllocTRES|User|Account|State|\r\n\r\n" + line + "|COMPLETED|\r\n" +
				"Submit|JobIDRaw|Start|ElapsedRaw|AllocTRES|User|Account|\r\n2026-05-01T10:00:00|8|2026-05-01T10:00:05|3600|gres/gpu=4|bob|speech|\r\n",
			kept + "8,0,3600,4,5,bob,speech\n",
		},
		"without header": {line + "|FAILED", kept},
		"trailing |":     {line + "|", kept},
		"typed GPUs": {
			strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu:a100=4"), kept,
		},
		"GPUs of several types": {
			strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu:a100=1,gres/gpumem=80G,gres/gpu:v100=3,gres/gpuutil=7"),
			"job_id,submit_s,duration_s,gpus\n1 job left out: ran on several GPU types\n" +
				"  a:1: AllocTRES is \"billing=1,gres/gpu:a100=1,gres/gpumem=80G,gres/gpu:v100=3,gres/gpuutil=7\"; " +
				"must be of one type, because GPUs of different types differ in speed\n",
		},
		"GPU types of several jobs": {
			strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu=4,gres/gpu:v100=4") + "\n" +
				strings.Replace(strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu:a100=4"), "7", "8", 1),
			kept + "8,0,3600,4,5,bob,speech\n" +
				"2 GPU types in one export: types differ in speed; convert the jobs " +
				"of each type or partition separately\n  a100: 1 job\n  v100: 1 job\n",
		},
		"Eligible and the limit of the user": {
			"JobIDRaw|Submit|Start|ElapsedRaw|AllocTRES|User|Account|State|Eligible|TimelimitRaw\n" +
				"7|2026-05-01T10:00:00|2026-05-01T10:30:00|60|gres/gpu=4|bob|speech|COMPLETED|2026-05-01T10:20:00|90\n" +
				"8|2026-05-01T10:00:00|2026-05-01T10:30:00|60|gres/gpu=4|bob|speech|COMPLETED|2026-05-01T10:00:00|UNLIMITED\n" +
				"9|2026-05-01T10:00:00|2026-05-01T10:30:00|60|gres/gpu=4|bob|speech|COMPLETED|2026-05-01T10:40:00|Partition_Limit\n" +
				"10|2026-05-01T10:00:00|2026-05-01T10:30:00|60|gres/gpu=4|bob|speech|COMPLETED|Unknown|\n",
			"job_id,submit_s,duration_s,gpus,eligible_s,start_s,limit_s,user,group\n7,0,60,4,1200,1800,5400,bob,speech\n" +
				"8,0,60,4,,1800,,bob,speech\n9,0,60,4,,1800,,bob,speech\n10,0,60,4,,1800,,bob,speech\n",
		},
		"runs of requeued jobs, in either order": {
			"7|2026-05-01T10:00:00|2026-05-01T10:00:10|100|gres/gpu=4|bob|speech|NODE_FAIL\n" +
				"8|2026-05-01T10:30:00|2026-05-01T10:30:05|60|gres/gpu=4|ann|vision|COMPLETED\n" +
				"7|2026-05-01T10:00:00|2026-05-01T10:10:00|300|gres/gpu=4|bob|speech|COMPLETED\n" +
				"8|2026-05-01T10:20:00|2026-05-01T10:20:05|60|gres/gpu=4|ann|vision|PREEMPTED\n",
			slurmHeader + "7,0,300,4,600,bob,speech\n8,1800,60,4,1805,ann,vision\n" +
				"2 runs left out: the job ran again\n  a:1: the id is \"7\", as in a:3\n  a:4: the id is \"8\", as in a:2\n",
		},
		"ids after a wrap-around": {
			line + "\n" + strings.ReplaceAll(line, "2026-05-01", "2026-05-02"),
			kept + "7#2,86400,3600,4,86405,bob,speech\n1 job renamed: another job has its id\n  a:2: the id is \"7\", now 7#2\n",
		},
		"parts of GPUs": {
			strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu:a100_1g.5gb=1,gres/gpu=1") + "\n" +
				strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu:nvidia_h100_80gb_hbm3_3g.40gb=2") + "\n" +
				strings.ReplaceAll(line, "gres/gpu=4", "gres/shard=2") + "\n" +
				strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu=4,gres/shard=0"),
			kept + "3 jobs left out: ran on parts of GPUs\n" +
				"  a:1: AllocTRES is \"billing=1,gres/gpu:a100_1g.5gb=1,gres/gpu=1\"; must be whole GPUs, without MIG slices and shards\n" +
				"  a:2: AllocTRES is \"billing=1,gres/gpu:nvidia_h100_80gb_hbm3_3g.40gb=2\"; must be whole GPUs, without MIG slices and shards\n" +
				"  a:3: AllocTRES is \"billing=1,gres/shard=2\"; must be whole GPUs, without MIG slices and shards\n",
		},
		"GPUs with and without types": {
			strings.ReplaceAll(line, "gres/gpu=4", "gres/gpu:a100=4,gres/gpu=4,gres/gpu:v100=0"), kept,
		},
		"Unix seconds": {
			"7|1777622400|1777622405|3600|gres/gpu=4|bob|speech", kept,
		},
		"offsets": {
			"7|2026-05-01T10:00:00+0200|2026-05-01T08:00:05Z|3600|gres/gpu=4|bob|speech", kept,
		},
		"end of daylight saving time, before it": {
			"7|2026-10-25T01:59:55|2026-10-25T02:00:00|3600|gres/gpu=4|bob|speech",
			kept + "1 time taken as the earlier of two: the end of daylight saving time repeats the hour\n  a:1: Start is \"2026-10-25T02:00:00\"\n",
		},
		"end of daylight saving time, both times": {
			"7|2026-10-25T02:50:00|2026-10-25T02:10:00|1200|gres/gpu=4|bob|speech",
			slurmHeader + "7,0,1200,4,1200,bob,speech\n",
		},
		"end of daylight saving time, two ways": {
			"7|2026-10-25T02:10:00|2026-10-25T03:10:00|1200|gres/gpu=4|bob|speech",
			slurmHeader + "7,0,1200,4,7200,bob,speech\n" +
				"1 time taken as the earlier of two: the end of daylight saving time repeats the hour\n  a:1: Submit is \"2026-10-25T02:10:00\"\n",
		},
		"beginning of daylight saving time": {
			"7|2026-03-29T01:59:55|2026-03-29T03:00:00|3600|gres/gpu=4|bob|speech", kept,
		},
		"a start that cannot be resolved": {
			"7|2026-10-26T02:50:00|2026-10-26T02:10:00|1200|gres/gpu=4|bob|speech",
			"job_id,submit_s,duration_s,gpus\n" +
				"1 job left out: started before its submission\n  a:1: Start is \"2026-10-26T02:10:00\", Submit is \"2026-10-26T02:50:00\"\n",
		},
		"left out": {
			line + "\n" +
				"8|2026-05-01T10:00:00|Unknown|0|gres/gpu=4|bob|speech\n" +
				"9|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|cpu=8|bob|speech\n" +
				"10|2026-05-01T10:00:00|None|0||bob|speech\n" +
				"11|2026-05-01T10:00:00|2026-05-01T10:00:05||gres/gpu=4|bob|speech\n" +
				"12|2026-05-01T10:00:00|2026-05-01T10:00:05|0|gres/gpu=4|bob|speech\n" +
				"13|2026-05-01T10:00:00|2026-05-01T10:00:05|1:00|gres/gpu=4|bob|speech\n" +
				"14|1 May|2026-05-01T10:00:05|3600|gres/gpu=4|bob|speech\n" +
				"15|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|gres/gpu:a100=some|bob|speech\n" +
				"16|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|gres/gpu:a=2147483647,gres/gpu:b=1|bob|speech\n" +
				"17|2026-05-01T10:00:00|2026-05-01T10:00:05\n" +
				"18.batch|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|gres/gpu=4|bob|speech\n" +
				"7|2026-05-01T10:00:01|2026-05-01T10:00:05|3600|gres/gpu=4|bob|speech\n" +
				"|2026-05-01T10:00:01|2026-05-01T10:00:05|3600|gres/gpu=4|bob|speech\n" +
				"\xff|2026-05-01T10:00:01|2026-05-01T10:00:05|3600|gres/gpu=4|bob|speech\n",
			kept +
				"2 jobs left out: never started\n  a:2: Start is \"Unknown\"\n  a:4: Start is \"None\"\n" +
				"1 job left out: ran on no GPUs\n  a:3: AllocTRES is \"cpu=8\"\n" +
				"1 job left out: ElapsedRaw empty\n  a:5\n" +
				"1 job left out: ran for 0 seconds\n  a:6: ElapsedRaw is \"0\"\n" +
				"1 job left out: ElapsedRaw not valid\n  a:7: ElapsedRaw is \"1:00\"; must be a whole number of seconds, at least 0\n" +
				"1 job left out: Submit not valid\n  a:8: Submit is \"1 May\"; must be " +
				"a date and a time, such as 2026-05-04T09:00:00, or Unix seconds\n" +
				"2 jobs left out: AllocTRES not valid\n" +
				"  a:9: AllocTRES is \"gres/gpu:a100=some\"; must be a list with whole numbers of GPUs, such as gres/gpu:a100=4\n" +
				"  a:10: AllocTRES is \"gres/gpu:a=2147483647,gres/gpu:b=1\"; must be a list with whole numbers of GPUs, such as gres/gpu:a100=4\n" +
				"1 job left out: wrong number of fields\n  a:11: has 3 fields; must have 7\n" +
				"1 job step left out: the resources are those of its job\n  a:12\n" +
				"1 job left out: job id repeated\n  a:13: the id is \"7\", as in a:1\n" +
				"2 jobs left out: not valid in a trace\n  a:14: job_id is empty\n  a:15: job_id is \"\\xff\"; must be valid UTF-8\n",
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, Slurm, test.want, test.text) })
	}
}

// TestSlurmStates checks that the jobs of every state that used nodes are kept.
func TestSlurmStates(t *testing.T) {
	const header = "JobIDRaw|State|Submit|Start|ElapsedRaw|AllocTRES|User|Account\n"
	const rest = "|2026-05-01T10:00:00|2026-05-01T10:00:05|3600|gres/gpu=4|bob|speech\n"
	for _, state := range []string{
		"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "CANCELLED by 1000",
		"OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "DEADLINE", "BOOT_FAIL", "",
	} {
		check(t, Slurm, slurmHeader+"7,0,3600,4,5,bob,speech\n", header+"7|"+state+rest)
	}
	for _, state := range []string{"RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED"} {
		check(t, Slurm, "job_id,submit_s,duration_s,gpus\n1 job left out: not complete\n  a:2: State is \""+state+
			"\"; must be one of BOOT_FAIL, CANCELLED, COMPLETED, DEADLINE, FAILED, "+
			"LAUNCH_FAILED, NODE_FAIL, OUT_OF_MEMORY, PREEMPTED, RECONFIG_FAIL, TIMEOUT\n",
			header+"7|"+state+rest)
	}
}

func TestHelios(t *testing.T) {
	check(t, Helios, "job_id,submit_s,duration_s,gpus,user\n1,0,7.5,1,u2\n2,60,100,8,u1\n"+
		"1 job left out: ran on no GPUs\n  a:4: gpu_num is \"0\"\n"+
		"1 job left out: duration empty\n  a:5\n"+
		"1 job left out: gpu_num empty\n  a:6\n"+
		"1 job left out: gpu_num not valid\n  a:7: gpu_num is \"0.5\"; must be a whole number from 0 to 2147483647\n"+
		"1 job left out: duration not valid\n  a:8: duration is \"-7\"; must be a number of seconds, at least 0\n"+
		"1 job left out: submit_time not valid\n  a:9: submit_time is \"2020-13-01 "+
		"00:02:00\"; must be a date and a time, such as 2026-05-04T09:00:00\n"+
		"1 job left out: not valid in a trace\n  a:10: duration_s is 600000000; must be from 0 to 576460752\n",
		"job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"+
			"2,u1,8.0,64,1,COMPLETED,2020-05-01 00:01:00,,,100,0\n"+
			"1,u2,1,8,1,FAILED,2020-05-01 00:00:00,,,7.5,0\n"+
			"3,u2,0,8,1,COMPLETED,2020-05-01 00:02:00,,,7,0\n"+
			"4,u2,1,8,1,CANCELLED,2020-05-01 00:02:00,,,,0\n"+
			"5,u2,,8,1,COMPLETED,2020-05-01 00:02:00,,,7,0\n"+
			"6,u2,0.5,8,1,COMPLETED,2020-05-01 00:02:00,,,7,0\n"+
			"7,u2,1,8,1,COMPLETED,2020-05-01 00:02:00,,,-7,0\n"+
			"8,u2,1,8,1,COMPLETED,2020-13-01 00:02:00,,,7,0\n"+
			"9,u2,1,8,1,COMPLETED,2020-05-01 00:02:00,,,6e8,0\n")
	check(t, Helios, "job_id,submit_s,duration_s,gpus,start_s,user,group\n1,0,100,8,60,u1,vc1\n2,0,100,8,,u1,vc2\n"+
		"1 job left out: started before its submission\n  a:4: start_time is \"2020-05-01 00:00:59\", submit_time is \"2020-05-01 00:01:00\"\n",
		"job_id,user,vc,gpu_num,submit_time,start_time,duration\n1,u1,vc1,8,2020-05-01 00:01:00,2020-05-01 00:02:00,100\n"+
			"2,u1,vc2,8,2020-05-01 00:01:00,None,100\n3,u1,vc2,8,2020-05-01 00:01:00,2020-05-01 00:00:59,100\n")
	check(t, Helios, "job_id,submit_s,duration_s,gpus\n1,0,7,1\n2,5,7,1\n",
		"submit_time,\"Job_ID\",duration, gpu_num\n2020-05-01 00:00:00,1,7,1\n",
		"job_id,gpu_num,duration,submit_time\n2,1,7,2020-05-01T00:00:05\n")
}

func TestPhilly(t *testing.T) {
	check(t, Philly, "job_id,submit_s,duration_s,gpus,start_s,user\na,0,2,1,1,u\nb,10,90,3,240,u\n"+
		"2 attempts left out: start_time or end_time unknown\n  a:2\n  a:9\n"+
		"2 jobs left out: no attempt with a start and an end\n  a:8\n  a:9\n"+
		"1 job left out: ends before it starts\n  a:10: start_time is \"2017-10-01 01:00:00\", end_time is \"2017-10-01 00:00:00\"\n"+
		"1 job left out: ran on no GPUs\n  a:11\n"+
		"2 jobs left out: field of the wrong type\n  a:12: attempts.start_time is of the type number; must be a string\n"+
		"  a:12: attempts is of the type string; must be a list\n"+
		"1 job left out: submitted_time empty\n  a:13\n"+
		"1 job left out: started before its submission\n  a:14: submitted_time is \"2017-10-01 00:00:00\"\n",
		`[
			{"jobid": "b", "user": "u", "status": "Pass", "submitted_time": "2017-10-01 00:00:10", "attempts": [
				{"start_time": "2017-10-01 00:01:00", "end_time": "2017-10-01 00:02:00", "detail": [{"gpus": ["0"]}]},
				{"start_time": "2017-10-01 00:05:00", "end_time": "2017-10-01 00:05:30", "detail": [{"gpus": ["0", "1"]}, {"gpus": ["0"]}]},
				{"start_time": "2017-10-01 00:06:00", "end_time": "None", "detail": []}]},
			{"jobid": "a", "user": "u", "status": "Killed", "submitted_time": "2017-10-01 00:00:00", "attempts": [
				{"start_time": "2017-10-01 00:00:01", "end_time": "2017-10-01 00:00:03", "detail": [{"ip": "m", "gpus": ["0"]}]}]},
			{"jobid": "c", "user": "u", "submitted_time": "2017-10-01 00:00:00", "attempts": []},
			{"jobid": "d", "submitted_time": "2017-10-01 00:00:00", "attempts": [{"start_time": null, "end_time": ""}]},
			{"jobid": "e", "submitted_time": "2017-10-01 00:00:00", `+
			`"attempts": [{"start_time": "2017-10-01 01:00:00", "end_time": "2017-10-01 00:00:00", "detail": [{"gpus": [0]}]}]},
			{"jobid": "f", "submitted_time": "2017-10-01 00:00:00", `+
			`"attempts": [{"start_time": "2017-10-01 00:00:00", "end_time": "2017-10-01 00:00:01"}]},
			{"jobid": "g", "attempts": [{"start_time": 7}]}, {"jobid": "h", "attempts": "none"},
			{"jobid": "i", "attempts": [{"start_time": "2017-10-01 00:00:00", "end_time": "2017-10-01 00:00:01", "detail": [{"gpus": [0]}]}]},
			{"jobid": "j", "submitted_time": "2017-10-01 00:00:00", `+
			`"attempts": [{"start_time": "0017-10-01 00:00:00", "end_time": "2017-10-01 00:00:01", "detail": [{"gpus": [0]}]}]}
		]`)
}

func TestITP(t *testing.T) {
	check(t, ITP, "job_id,submit_s,duration_s,gpus\na,0,600,1\nb,19.5,700,8\n",
		"job_id,num_gpu,submission_time,duration\nb,8,1020,700\na,1,1000.5,600\n")
}

func TestPAI(t *testing.T) {
	check(t, PAI, "job_id,submit_s,duration_s,gpus,user\na,0,1,1,u\nb,20,60,2,u\n"+
		"1 task left out: start_time or end_time empty\n  b:5\n"+
		"1 task left out: no such job\n  b:6: job_name is \"other\"\n"+
		"1 task left out: requested no GPUs\n  b:7\n"+
		"1 task left out: inst_num empty\n  b:8\n"+
		"1 task left out: plan_gpu not valid\n  b:9: plan_gpu is \"half\"; must be a number from 0 to 2147483647\n"+
		"1 job left out: ran on less than one GPU\n  a:3: on 0.5\n"+
		"1 job left out: no task ran on GPUs\n  a:4\n"+
		"1 job left out: start_time empty\n  a:5\n"+
		"1 job left out: ends before it starts\n  a:6: the task in b:10\n",
		"b,i,u,Terminated,30,99\na,i,u,Failed,10,99\nsmall,i,u,Terminated,20,99\n"+
			"queued,i,u,Waiting,20,\nlate,i,u,Failed,,99\nback,i,u,Failed,5,9\n",
		"b,ps,1,Terminated,40,90,600,29,0,\nb,worker,3,Terminated,50,100,600,29,50,V100\na,worker,1,Failed,12,13,600,29,100,P100\n"+
			"small,worker,1,Terminated,20,30,600,29,50,T4\nqueued,worker,2,Waiting,,,600,29,100,T4\nother,worker,1,Failed,12,13,600,29,100,P100\n"+
			"b,ps,1,Terminated,40,90,600,29,,\nb,ps,,Terminated,40,90,600,29,,\n"+
			"b,ps,1,Terminated,40,90,600,29,half,\nback,worker,1,Failed,13,12,600,29,100,P100\n")
}

// TestPAIHeaders checks that tables with headers are read, whose columns may be in another order.
func TestPAIHeaders(t *testing.T) {
	check(t, PAI, "job_id,submit_s,duration_s,gpus,user\na,0,1,1,u\n",
		"user,job_name,inst_id,status,start_time,end_time\nu,a,i,Failed,10.5,99\n",
		"task_name,job_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\nworker,a,1,Failed,12,13,600,29,100,P100\n")
}

// TestRefusesFile checks that a file that is not of its source is named, with its line.
func TestRefusesFile(t *testing.T) {
	for want, test := range map[string]struct {
		source Source
		files  []string
	}{
		"a:2: has 1 field; must have 7: JobIDRaw|Submit|Start|ElapsedRaw|AllocTRES|User|Account": {Slurm, []string{"\n7 2026 gres/gpu=4\n"}},
		"a:1: column Submit is missing, column Start is there twice; must have JobIDRaw|Submit|": {
			Slurm, []string{"JobID|Start|Start|ElapsedRaw|AllocTRES|User|Account\n"},
		},
		"a: is empty; must have a header with job_id,submit_time,duration,gpu_num": {Helios, []string{""}},
		"a:1: column num_gpu is missing":                                           {ITP, []string{"job_id,gpus,submission_time,duration\n"}},
		"a:2: bare \" in non-quoted-field": {
			Helios, []string{"job_id,submit_time,duration,gpu_num\na\",1,1,1\n"},
		},
		"a:2: extraneous or missing": {
			ITP, []string{"job_id,num_gpu,submission_time,duration\n\"a,1,2,3\nb,1,2,3\n"},
		},
		"a:1: has 10 fields; must have 6: job_name,inst_id,user,status": {PAI, []string{"b,ps,1,Terminated,40,90,600,29,0,\n", ""}},
		"a:2: must be a list of jobs in JSON":                           {Philly, []string{"\n{}"}},
		"a:1: must be a list of jobs":                                   {Philly, []string{""}},
		"a:3: the file ends within the list of jobs":                    {Philly, []string{"[\n{},\n{\"jobid\": "}},
		"a:2: the file ends within":                                     {Philly, []string{"[{}\n"}},
		"a:2: invalid character 'x'":                                    {Philly, []string{"[{},\nx]"}},
		"a:2: more text after the list of jobs":                         {Philly, []string{"[]\n[]"}},
		"a:2: submit_s is 631152000; must be from 0 to 576460752, counted from the first submission in a:3": {
			Helios, []string{"job_id,submit_time,duration,gpu_num\n1,2020-01-01 00:00:00,1,1\n2,2000-01-01 00:00:00,1,1\n"},
		},
	} {
		if history, err := convert(t, test.source, test.files...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s %q: %v, %v; want %q", test.source, test.files, history, err, want)
		}
	}
}

// TestRemarkNamesTheFirst checks that a remark stays short.
func TestRemarkNamesTheFirst(t *testing.T) {
	history, err := convert(t, ITP, "job_id,num_gpu,submission_time,duration\n"+strings.Repeat("a,0,1,2\n", 12))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(history.Remarks[0].String(), "\n")
	if len(lines) != 12 || lines[0] != "12 jobs left out: ran on no GPUs" ||
		lines[10] != `  a:11: num_gpu is "0"` || lines[11] != "  and 2 more" {
		t.Errorf("%q", lines)
	}
}

// checkRoundTrip checks that every history that is read is a trace that is read again as it was,
// and that every job is in it or counted.
func checkRoundTrip(t rapid.TB, source Source, files ...string) {
	t.Helper()
	history, err := convert(t, source, files...)
	if err != nil {
		return
	}
	out := 0
	for _, remark := range history.Remarks {
		if remark.What == "job" && remark.How == leftOut {
			out += remark.Count
		}
	}
	if len(history.Trace)+out != history.Jobs {
		t.Errorf("%d jobs were read, %d are kept and %d left out", history.Jobs, len(history.Trace), out)
	}
	var written strings.Builder
	if err := history.Trace.Write(&written); err != nil {
		t.Fatal(err)
	}
	read, err := sim.ReadTrace(strings.NewReader(written.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, written.String())
	}
	if diff := cmp.Diff(history.Trace, read); diff != "" {
		t.Errorf("the trace that is read is another:\n%s\n%s", diff, written.String())
	}
}

// TestRoundTrip converts random histories whose fields are mostly valid.
func TestRoundTrip(t *testing.T) {
	texts := func(values ...string) *rapid.Generator[string] { return rapid.SampledFrom(values) }
	id := rapid.StringMatching(`[a-c,"\r\n ]{1,3}|[0-9]{1,2}`)
	times := rapid.Custom(func(t *rapid.T) string {
		return time.Unix(rapid.Int64Range(1792800000, 1792980000).Draw(t, "time"), 0).In(berlin(t)).Format("2006-01-02 15:04:05")
	})
	seconds := rapid.OneOf(texts("", "0", "x", "-1", "1e9"),
		rapid.Map(rapid.Float64Range(0, 1e8), func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }))
	count := texts("", "0", "1", "8.0", "16", "many", "99999999999")
	fields := map[Source][][]*rapid.Generator[string]{
		Slurm: {{
			id, times, rapid.OneOf(times, texts("Unknown")), texts("1", "3600", "", "0"),
			texts("gres/gpu=4", "cpu=1", "gres/gpu:a=2,gres/gpu:b=1", "gres/gpu:a=x"), id, id, texts("COMPLETED", "RUNNING", "CANCELLED by 7"),
		}},
		Helios: {{id, times, seconds, count, id}},
		ITP:    {{id, count, seconds, seconds}},
		PAI: {
			{id, id, id, id, seconds, seconds},
			{id, id, count, id, seconds, seconds, id, id, texts("", "25", "100", "x"), id},
		},
	}
	headers := map[Source]string{Helios: "job_id,submit_time,duration,gpu_num,user\n", ITP: "job_id,num_gpu,submission_time,duration\n"}
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.SampledFrom([]Source{Slurm, Helios, ITP, PAI}).Draw(t, "source")
		var files []string
		for _, generators := range fields[source] {
			file := new(strings.Builder)
			file.WriteString(headers[source])
			table := csv.NewWriter(file)
			for range rapid.IntRange(0, 8).Draw(t, "lines") {
				var record []string
				for _, generator := range generators {
					record = append(record, generator.Draw(t, "field"))
				}
				if source == Slurm { // It quotes nothing.
					line := strings.NewReplacer("\n", "", "\r", "").Replace(strings.Join(record, "|"))
					file.WriteString(line + "\n")
				} else if err := table.Write(record); err != nil {
					t.Fatal(err)
				}
			}
			table.Flush()
			files = append(files, file.String())
		}
		checkRoundTrip(t, source, files...)
	})
}

// fuzz fuzzes two files of a source.
func fuzz(f *testing.F, source Source, seeds ...string) {
	f.Helper()
	for _, seed := range seeds {
		f.Add(seed, seeds[len(seeds)-1])
	}
	f.Fuzz(func(t *testing.T, first, second string) { checkRoundTrip(t, source, first, second) })
}

func FuzzSlurm(f *testing.F) {
	fuzz(f, Slurm,
		"JobIDRaw|Submit|Start|ElapsedRaw|AllocTRES|User|Account|State\n"+
			"7|2026-10-25T02:50:00|2026-10-25T02:10:00|1200|gres/gpu:a100=4|bob|speech|FAILED\n",
		"8|1777622400|1777622405|3600|gres/gpu=4|bob|\"a\r\n")
}

func FuzzHelios(f *testing.F) {
	fuzz(f, Helios, "job_id,user,gpu_num,submit_time,duration\n1,\"u\n,\",8.0,2020-05-01 00:01:00,7.5\n",
		"job_id,gpu_num,submit_time,duration\n2,1,2020-05-01T00:01:00Z,1e3\n")
}

func FuzzITP(f *testing.F) {
	fuzz(f, ITP, "job_id,num_gpu,submission_time,duration\na,1,1000.000000001,600\n", "job_id,num_gpu,submission_time,duration\nb,8,1e3,0.1\n")
}

func FuzzPAI(f *testing.F) {
	fuzz(f, PAI, "a,i,u,Failed,10,99\nb,i,u,Failed,10,99\n",
		"a,worker,3,Failed,12,13,600,29,50,P100\nb,worker,1,Failed,13,12,600,29,50,P100\n")
}

func FuzzPhilly(f *testing.F) {
	fuzz(f, Philly, `[{"jobid": "a\r\nb", "user": null, "submitted_time": "2017-10-01 00:00:10", "attempts": [
		{"start_time": "2017-10-01 00:01:00", "end_time": "2017-10-01 00:02:00", "detail": [{"gpus": ["0"]}]}]}]`, "[]")
}
