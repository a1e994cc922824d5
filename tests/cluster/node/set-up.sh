# Prepares the namespaces of a real node, before its processes start in them. They are those of this shell: mounts, processes and the
# network. They, and all that is changed here, end with the supervisor.
#
#     set-up.sh FOLDER ADDRESS
set -eu
folder=$1 address=$2

mount -t proc proc /proc
ip link set lo up
ip address add "$address/32" dev lo

# Sockets of containerd and its shims, and the lock of iptables.
mount -t tmpfs tmpfs /run
# The kubelet links the logs of containers there.
mount -t tmpfs tmpfs /var/log
# CNI keeps results there.
mkdir -p "$folder/var-lib/upper" "$folder/var-lib/work"
mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$folder/var-lib/upper,workdir=$folder/var-lib/work" /var/lib

# The kubelet sets these for the whole machine, unless they have these values.
mkdir -p "$folder/sysctl"
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file="$folder/sysctl/$(echo "${setting%=*}" | tr / .)"
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
done

# The kubelet's control groups lie below this one, which must exist. Those of version 1 have a folder for each controller.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p /sys/fs/cgroup/windlass-node
else
    for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller/windlass-node"; done
fi
