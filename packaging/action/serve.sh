#!/usr/bin/env bash
# Starts the server of the action, waits until it is ready, and tells the steps that follow where it is.
set -euo pipefail
program=${PROGRAM:-loligo}
# An input that is not given is an empty variable here.
[ -n "${LOLIGO_LOAD:-}" ] || unset LOLIGO_LOAD
[ -n "${LOLIGO_SNAPSHOT:-}" ] || unset LOLIGO_SNAPSHOT
data=$(mktemp -d "${RUNNER_TEMP:-/tmp}/loligo.XXXXXX")
mkfifo "$data/ready"
nohup "$program" serve --data "$data" >"$data/ready" 2>"$data/errors" </dev/null &
# The server prints one line when clients can connect; if it ends instead, the pipe does.
if ! read -r line <"$data/ready"; then
  cat "$data/errors" >&2
  exit 1
fi
echo "$line"
rm "$data/ready"
echo "conf=$data/ceph.conf" >>"$GITHUB_OUTPUT"
echo "CEPH_CONF=$data/ceph.conf" >>"$GITHUB_ENV"
