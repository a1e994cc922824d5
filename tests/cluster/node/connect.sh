# Connects this machine with the network of a real node: the API server and the Pods can be reached from here. The connection ends with
# the supervisor.
#
#     connect.sh SUPERVISOR-ID NETWORK
set -eu
supervisor=$1 network=$2
inside() { nsenter --target "$supervisor" --net "$@"; }

ip link add windlass-node type veth peer name windlass-host netns "$supervisor"
inside ip address add 10.88.255.2/30 dev windlass-host
inside ip link set windlass-host up
ip address add 10.88.255.1/30 dev windlass-node
ip link set windlass-node up
ip route add "$network" via 10.88.255.2
