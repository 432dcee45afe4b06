#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command once for each rank, every rank behind a network link of a given rate: Linux network namespaces on a
# bridge, as a cluster of machines on one machine. Needs root, and `ip` and `tc` (Debian: iproute2).
#
#   scripts/shaped-network.sh [--ranks N] [--rate RATE] [--islands N] [--between RATE] [--bytes FILE] -- COMMAND...
#
#   --ranks N       number of ranks, 2 to 64 (default 4)
#   --rate RATE     rate of each link in each direction, as tc writes it: 100mbit, 1gbit (default: not limited)
#   --islands N     number of islands of neighbouring ranks, each of which has one link to the others (default 1)
#   --between RATE  rate of the link of an island in each direction (default: not limited)
#   --bytes FILE    writes the bytes that each rank's link has sent, one number a line, from rank 0 on
#
# The command finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in its environment, so `kerf train`, `kerf run`
# and PyTorch's `env://` connect over TCP. Rank 0 prints to standard output, the others to standard error. The exit status
# is that of the first rank that fails. All namespaces are removed at the end, after errors and signals as well.
set -euo pipefail

usage() { sed -n '6,13s/^# \{0,1\}//p' "$0" >&2; exit 1; }
fail() { echo "shaped-network: $*" >&2; exit 1; }

ranks=4 rate= islands=1 between= bytes=
while [ $# -gt 0 ]; do
  case $1 in
    --ranks | --rate | --islands | --between | --bytes)
      [ $# -ge 2 ] || usage
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --) shift; break ;;
    *) usage ;;
  esac
done
[ $# -gt 0 ] || usage
[[ $ranks =~ ^[0-9]+$ ]] && [ "$ranks" -ge 2 ] && [ "$ranks" -le 64 ] || fail "--ranks is '$ranks'; it has to be a number from 2 to 64"
[[ $islands =~ ^[0-9]+$ ]] && [ "$islands" -ge 1 ] && [ $((ranks % islands)) = 0 ] || fail "--islands is '$islands'; it has to be a number that divides the $ranks ranks"
[ "$(id -u)" = 0 ] || fail "network namespaces need root; run this script with sudo"
for tool in ip tc; do
  command -v "$tool" > /dev/null || fail "the program '$tool' is missing; install iproute2"
done

base=kerf$$ hub=kerf$$hub
pids=()
clean() {
  trap - EXIT INT TERM
  for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  for ((rank = 0; rank < ranks; ++rank)); do ip netns delete "$base-$rank" 2> /dev/null || true; done
  ip netns delete "$hub" 2> /dev/null || true
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Both ends of a link are shaped, so that a rank that several others send to receives at the rate, too.
shape() { # namespace, device, rate
  [ -z "$3" ] || ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$3" burst 256kb latency 50ms
}

ip netns add "$hub" || fail "the kernel does not let this user make network namespaces (in a container, give it CAP_NET_ADMIN and CAP_SYS_ADMIN)"
ip -n "$hub" link add br0 type bridge
ip -n "$hub" link set br0 up
for ((island = 0; islands > 1 && island < islands; ++island)); do
  ip -n "$hub" link add "island$island" type bridge
  ip -n "$hub" link set "island$island" up
  ip -n "$hub" link add "in$island" type veth peer name "out$island"
  ip -n "$hub" link set "in$island" master "island$island" up
  ip -n "$hub" link set "out$island" master br0 up
  shape "$hub" "in$island" "$between"
  shape "$hub" "out$island" "$between"
done
for ((rank = 0; rank < ranks; ++rank)); do
  bridge=br0
  [ "$islands" = 1 ] || bridge=island$((rank * islands / ranks))
  ip netns add "$base-$rank"
  ip -n "$base-$rank" link set lo up
  ip -n "$base-$rank" link add e0 type veth peer name "v$rank" netns "$hub"
  ip -n "$base-$rank" addr add "10.77.0.$((rank + 1))/24" dev e0
  ip -n "$base-$rank" link set e0 up
  ip -n "$hub" link set "v$rank" master "$bridge" up
  shape "$base-$rank" e0 "$rate"
  shape "$hub" "v$rank" "$rate"
done

export WORLD_SIZE=$ranks MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=e0
for ((rank = ranks - 1; rank >= 0; --rank)); do
  if [ "$rank" = 0 ]; then
    RANK=0 LOCAL_RANK=0 ip netns exec "$base-0" "$@" &
  else
    RANK=$rank LOCAL_RANK=$rank ip netns exec "$base-$rank" "$@" >&2 &
  fi
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  code=0
  wait "$pid" || code=$?
  [ "$status" != 0 ] || status=$code
done
pids=()
if [ -n "$bytes" ]; then
  for ((rank = 0; rank < ranks; ++rank)); do
    ip netns exec "$base-$rank" cat /sys/class/net/e0/statistics/tx_bytes
  done > "$bytes.new"
  mv "$bytes.new" "$bytes"
fi
exit "$status"
