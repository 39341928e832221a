#!/usr/bin/env bash
# A run is killed twice with SIGKILL and taken up again, and compared with one that was left alone.
# Prints what docs/resuming.md shows. Run with: tools/kill_and_resume.sh [FOLDER]
set -euo pipefail
cd "${1:-$(mktemp -d)}"

train="hypercrl train cartpole hypercrl --tasks 2 --steps-per-task 400 --updates 100 --eval-episodes 2 --checkpoint-seconds 2"

show() { echo "\$ $*"; }

kill_after() { # LINES: let it print so many lines, then kill it
  show "$train --out interrupted &"
  $train --out interrupted >log &
  local process=$!
  until [ "$(wc -l <log)" -ge "$1" ]; do sleep 0.1; done
  kill -9 "$process"
  wait "$process" 2>/dev/null || true
  cat log
  show "kill -9 \$!"
}

kill_after 2
show "ls interrupted"
ls interrupted
kill_after 3
show "$train --out interrupted"
$train --out interrupted
show "$train --out undisturbed >/dev/null"
$train --out undisturbed >/dev/null
show "cmp interrupted/metrics.jsonl undisturbed/metrics.jsonl && sha256sum */metrics.jsonl"
cmp interrupted/metrics.jsonl undisturbed/metrics.jsonl && sha256sum -- */metrics.jsonl
