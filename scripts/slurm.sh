#!/usr/bin/env bash
# A Slurm of eight nodes on this machine, to try docs/schedulers/slurm.md: the real programs, on ports of
# loopback, without accounting and without the system's configuration. Debian and Ubuntu have it
# in their packages slurmctld, slurmd and slurm-client.
#
#   scripts/slurm.sh start DIR    into a new folder; prints the SLURM_CONF to export
#   scripts/slurm.sh stop DIR
set -euo pipefail
nodes=8

start() {
  local dir host
  mkdir -p "$1/log" "$1/state"
  dir=$(cd "$1" && pwd)
  host=$(hostname -s)
  cat >"$dir/slurm.conf" <<END
ClusterName=try
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmctldDebug=verbose
DebugFlags=Route
SlurmdLogFile=$dir/log/%n
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
KillWait=30
NodeName=node[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[17001-$((17000 + nodes))] CPUs=1 State=UNKNOWN
PartitionName=elastic Nodes=ALL OverSubscribe=EXCLUSIVE Default=YES
END
  export SLURM_CONF=$dir/slurm.conf
  # Not as daemons, so that they end with the caller's group of processes.
  slurmctld -D &>/dev/null &
  for ((i = 1; i <= nodes; i++)); do
    mkdir "$dir/node$i"
    slurmd -D -N "node$i" &>/dev/null &
  done
  while ((SECONDS < 180)); do # Seconds, unless the machine is busy.
    if [ "$(timeout 5 sinfo --noheader --states=idle --format=%D 2>/dev/null)" = $nodes ]; then
      echo "$SLURM_CONF"
      return
    fi
    sleep 0.5
  done
  tail -n 20 "$dir"/log/* >&2
  stop "$dir"
  echo 'slurm: the nodes are not ready' >&2
  exit 1
}

stop() {
  export SLURM_CONF=$1/slurm.conf
  timeout 5 scancel --partition=elastic || true
  for ((i = 0; i < 60; i++)); do
    [ -n "$(timeout 5 squeue --noheader 2>/dev/null)" ] || break
    sleep 0.5
  done
  for pid in "$1"/*.pid; do
    tail --pid="$(cat "$pid")" -f /dev/null &
    kill "$(cat "$pid")" || true
  done
  wait
}

case ${1-} in
start) start "$2" ;;
stop) stop "$2" ;;
*)
  echo 'usage: slurm.sh start DIR | stop DIR' >&2
  exit 2
  ;;
esac
