#!/usr/bin/env bash
# The demo: a collector with an archive, three exporters that speak NetFlow v5, NetFlow v9 and IPFIX, questions, and
# a comparison of what was sent with what is kept; on a terminal it ends with the service and its page. `make demo` builds weir and runs it.
#
# environment:
#   WEIR               the weir binary (default: weir on the PATH)
#   WEIR_DEMO_RECORDS  Flow Records of each exporter (default 100000)
#   WEIR_DEMO_RATE     Flow Records per second of each exporter (default 50000)
set -euo pipefail
unset WEIR_LOG WEIR_ARCHIVE

weir=${WEIR:-weir}
records=${WEIR_DEMO_RECORDS:-100000}
rate=${WEIR_DEMO_RATE:-50000}
step_timeout_secs=120

fail() {
  echo "error: $1" >&2
  echo "hint: $2" >&2
  exit 1
}

command -v "$weir" >/dev/null || fail "no weir binary at '$weir'" "run 'make demo', or set WEIR to the binary"

folder=$(mktemp -d "${TMPDIR:-/tmp}/weir-demo.XXXXXX")
archive=$folder/archive
collector=
service=

# Ends the collector and the service, and nothing else, by their process ids; also when the demo is interrupted.
cleanup() {
  local process
  for process in $collector $service; do
    if kill -0 "$process" 2>/dev/null; then
      kill -KILL "$process" 2>/dev/null || true
      wait "$process" 2>/dev/null || true
    fi
  done
  rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Says what is about to run: the path of this run left out, and words with spaces in quotes.
say() {
  local word line='$ weir'
  for word in "$@"; do
    case "$word" in
      "$archive") line+=' ARCHIVE' ;;
      *' '*) line+=" '$word'" ;;
      *) line+=" $word" ;;
    esac
  done
  printf '\n%s\n' "$line"
}

# Says what runs, then runs it with a time limit.
run() {
  say "$@"
  timeout "$step_timeout_secs" "$weir" "$@"
}

# The number that a query of one row and one column answers.
number() {
  timeout "$step_timeout_secs" "$weir" sql -q -o csv --archive "$archive" "$1" | tail -n 1
}

# said PROCESS FILE SCRIPT: what sed finds first in the file that a process writes; nothing when it ends before.
said() {
  local process=$1 file=$2 script=$3 found=
  for _ in $(seq 300); do
    found=$(sed -nE "$script" "$file" | head -n 1)
    [ -z "$found" ] || break
    kill -0 "$process" 2>/dev/null || break
    sleep 0.1
  done
  echo "$found"
}

# generate PROTOCOL SOURCE [MORE...]: sends flows and adds the records it says it sent to $sent.
sent=0
generate() {
  local protocol=$1 source=$2 said
  shift 2
  set -- generate --to "127.0.0.1:$port" --protocol "$protocol" --source "$source" --records "$records" --rate "$rate" \
    --seed "${source##*.}" "$@"
  say "$@"
  # Only what weir says goes into the file: the number of records comes from there and not from the command line.
  timeout "$step_timeout_secs" "$weir" "$@" >"$folder/generate" || {
    cat "$folder/generate"
    fail "the $protocol exporter failed" "see its output above"
  }
  cat "$folder/generate"
  said=$(grep -oE '[0-9]+ records|records[ =:]+[0-9]+' "$folder/generate" | grep -oE '[0-9]+' | head -n 1) ||
    fail "weir generate did not say how many records it sent" "this script and the binary do not fit together: build again"
  sent=$((sent + said))
}

echo "== collect: a collector on a free UDP port of 127.0.0.1, with an archive in $folder"
"$weir" collect --listen 127.0.0.1:0 --archive "$archive" >"$folder/collect.out" 2>"$folder/collect.log" </dev/null &
collector=$!
port=$(said "$collector" "$folder/collect.log" 's/.*listening on [^ ]*:([0-9]+).*/\1/p')
if [ -z "$port" ]; then
  cat "$folder/collect.log" >&2
  fail "the collector did not start" "see its messages above"
fi
echo "listening on port $port"

echo
echo "== generate: three exporters, $records Flow Records each; the second sends its Template late"
generate netflow-v5 127.0.0.5
generate netflow-v9 127.0.0.9 --late-template 5
generate ipfix 127.0.0.10 --ipv6-share 0.2 --options

echo
echo "== stop: the collector drains its queue, syncs and seals the archive"
kill -TERM "$collector"
for _ in $(seq $((step_timeout_secs * 10))); do
  kill -0 "$collector" 2>/dev/null || break
  sleep 0.1
done
kill -0 "$collector" 2>/dev/null && fail "the collector did not stop in $step_timeout_secs s" "report this as a defect"
wait "$collector" || {
  status=$?
  cat "$folder/collect.log" >&2
  fail "the collector ended with status $status" "see its messages above"
}
collector=
cat "$folder/collect.out"
tail -n 20 "$folder/collect.log"

echo
echo "== query: top talkers, a filter, SQL"
run query --archive "$archive" -s srcip/bytes -n 10
run query --archive "$archive" 'dst port 443 and bytes > 10k' -n 10
run sql --archive "$archive" \
  'SELECT export_version, count(*) AS flows, sum(packets) AS packets, sum(bytes) AS bytes FROM flows GROUP BY export_version ORDER BY export_version'

echo
echo "== books: what happened to everything that was received"
run books --archive "$archive" || fail "the books do not balance" "see the lines above"

kept=$(number 'SELECT count(*) AS n FROM flows')
booked=$(number 'SELECT sum(records_stored) AS n FROM exporter_books')
echo
echo "sent $sent records, the archive holds ${kept:-?}, the books say ${booked:-?}"
if [ "$sent" != "$kept" ] || [ "$sent" != "$booked" ]; then
  fail "sent, kept and booked differ" \
    "'kernel_drops' in the books means that the socket buffer was full: try WEIR_DEMO_RATE=$((rate / 5))"
fi
echo "demo passed: nothing was lost"

echo
echo "== serve: the service on the same archive, with traffic that is made up"
say serve --archive "$archive" --demo --statistics --listen 127.0.0.1:0
"$weir" serve --archive "$archive" --demo --statistics --listen 127.0.0.1:0 >"$folder/serve.out" 2>&1 </dev/null &
service=$!
page=$(said "$service" "$folder/serve.out" 's/.*(http:\/\/127\.0\.0\.1:[0-9]+\/).*/\1/p')
if [ -z "$page" ]; then
  cat "$folder/serve.out" >&2
  fail "the service did not start" "see its messages above"
fi
echo "its page: $page"
if [ -t 1 ]; then
  echo "Ctrl-C ends it"
  wait "$service" || true
else
  # nobody looks at it
  kill -TERM "$service"
  wait "$service" || {
    status=$?
    cat "$folder/serve.out" >&2
    fail "the service ended with status $status" "see its messages above"
  }
fi
service=
