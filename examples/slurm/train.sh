#!/bin/bash
# An elastic batch job, which reconcile.py starts, resizes and pauses. Its comment has the fields of the job in the snapshot;
# left and on are an initial estimate, the remaining seconds on that number of nodes:
#
#   sbatch --comment="sizes=1-8 restart=60 since=$(date +%s) left=3600 on=1" train.sh
#
#SBATCH --partition=elastic --hold --requeue --nodes=1 --ntasks-per-node=1 --open-mode=append

# comment prints the comment of the job, which its owner may change at any time.
comment() { squeue --noheader --job="$SLURM_JOB_ID" --format=%k; }
trained=$(expr "$(comment)" : '.* trained=\([0-9]*\)')

# report SECONDS_LEFT writes the remaining time on the current nodes into the comment.
report() {
  local fields
  fields=$(comment) && fields=${fields%% trained=*} fields=${fields%% left=*}
  scontrol update "JobId=$SLURM_JOB_ID" \
    "Comment=$fields trained=$((${trained:-0} + SECONDS)) left=$1 on=$SLURM_JOB_NUM_NODES"
}

# Your training goes here, such as
#   srun --ntasks="$SLURM_JOB_NUM_NODES" torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=8 \
#     --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$(hostname):29500" train.py &
# which loads its checkpoint and saves one on SIGTERM. Slurm sends SIGTERM when the job is requeued, and SIGKILL after KillWait,
# 30 s. This script simulates a training: 450 steps of 8 s each on one node.
srun --ntasks="$SLURM_JOB_NUM_NODES" sleep infinity &
checkpoint=$SLURM_JOB_NAME-$SLURM_JOB_ID.checkpoint
steps=$(cat "$checkpoint" 2>/dev/null || echo 0)
trap 'echo "$steps" >"$checkpoint"; exit' TERM
echo "from step $steps on $SLURM_JOB_NUM_NODES nodes"
while [ "$steps" -lt 450 ]; do
  sleep $((8 / SLURM_JOB_NUM_NODES)) &
  wait $!
  steps=$((steps + 1))
  [ $((steps % 8)) != 0 ] || report $((8 * (450 - steps) / SLURM_JOB_NUM_NODES))
done
