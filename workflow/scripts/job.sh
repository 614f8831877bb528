#!/usr/bin/env bash
# job.sh LOG MODULE ARGUMENTS…   Runs a module of fedgrid with the interpreter $PYTHON and keeps what it says in LOG.
#
# Where it fails, the end of the log is shown, but for a cell, which notes why for the run's log and fedgrid status; and
# then what the module could not say itself: that it was killed, or that its disk was full. With WARM=1 it runs in the
# warm worker, where one listens. Exit code 75: it was interrupted.
interrupted=
trap interrupted=75 INT TERM USR1 # the module hears them too, and writes its checkpoint: wait for it
# Snakemake takes PYTHONPATH away where conda deploys software
[ -n "$FEDGRID_CODE" ] && export PYTHONPATH=$FEDGRID_CODE${PYTHONPATH:+:$PYTHONPATH}
log=$1 module=$2
shift 2
run=("$PYTHON" -P -m "$module") # without the working folder: what lies there is not of the code
if [ -n "$WARM" ] && [ -n "$FEDGRID_CODE" ]; then
  run=("$PYTHON" -S -E "$FEDGRID_CODE/fedgrid/jobs/warm/client.py" "$module")
fi
[ -n "$interrupted" ] && exit "$interrupted"
"${run[@]}" "$@" > "$log" 2>&1
code=$?
[ $code = 0 ] && exit
[ "$module" = fedgrid.jobs.cell ] || tail "$log" >&2
if ! why=$({ echo > "$log.probe"; } 2>&1); then
  echo "fedgrid: $log: cannot be written (${why##*: })" >&2
elif [ $code -gt 128 ]; then
  echo "fedgrid: the process of this job was killed (signal $((code - 128)))" >&2
elif ! [ -s "$log" ]; then
  echo "fedgrid: $log: could not be written (its disk was full)" >&2
fi
rm -f "$log.probe"
exit "${interrupted:-$code}"
