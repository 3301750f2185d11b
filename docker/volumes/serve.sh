#!/bin/sh
# Brings an emulated volume up, keeps it for as long as the container lives, and takes it down at the end.
#   PROFILE  what follows `emulated:`, such as ebs-gp2?size=50GiB
#   PLACE    the directory that is shared with the host, under the same path there
#   NAME     the volume's; it is mounted at $PLACE/$NAME/data
set -eu

end() {
    volbench volume remove "$PLACE/$NAME" || echo "the volume could not be removed: is it still used?" >&2
    exit 0
}

awk -v place="$PLACE" '$5 == place && / shared:/ { found = 1 } END { exit !found }' /proc/self/mountinfo || {
    echo "$PLACE is not shared with the host; there: mount --bind $PLACE $PLACE && mount --make-shared $PLACE" >&2
    exit 3
}
flock --nonblock "$PLACE/$NAME/daemon.lock" true 2>/dev/null || [ ! -e "$PLACE/$NAME/daemon.lock" ] || {
    echo "another container serves the volume $PLACE/$NAME: use another NAME, or end that one" >&2
    exit 4
}
[ ! -e "$PLACE/$NAME" ] || volbench volume remove "$PLACE/$NAME" || :  # what a killed container has left
trap end TERM INT
volbench volume emulate "emulated:$PROFILE" --dir "$PLACE" --name "$NAME"
touch /run/ready
read -r daemon started <"$PLACE/$NAME/daemon.pid"  # its process id and start time, which no later process has

lives() {
    stat=$(cat "/proc/$daemon/stat" 2>/dev/null) || return 1
    set -- ${stat##*) }
    [ "$1" != Z ] && [ "${20}" = "$started" ]
}

while lives; do
    sleep 1 &
    wait $! || :
done
echo "the volume's daemon has ended; its last words:" >&2
tail -n 5 "$PLACE/$NAME/daemon.log" >&2
volbench volume stop "$PLACE/$NAME" >&2 || :
exit 5
