#!/bin/sh
# The machine's first process: mounts what an init would mount, then runs the lab's agent, then powers off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
echo volbench-lab >/proc/sys/kernel/hostname
/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add
ip link set lo up
modprobe -a 9pnet_virtio 9p virtio_console
mkdir -p /share
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share
udevadm settle
python3 /opt/volbench/tree/tests/lab/vm/agent.py
sync
echo o >/proc/sysrq-trigger
while :; do sleep 60; done
