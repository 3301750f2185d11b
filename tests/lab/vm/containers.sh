# Runs of volbench in containers of Docker, of Podman, and of Podman without root, on control groups of version 2 that
# systemd makes. /share needs images.tar (docker save of the tools image and of a MariaDB image), tree.tar (runner,
# suites, docker, pyproject.toml) and containers.yaml. What each engine gave is below /share/containers.
set +e
export PYTHONPATH=/work/runner:/opt/volbench/site
# QEMU's emulation of AVX2 makes NumPy fail
export NPY_DISABLE_CPU_FEATURES="X86_V3,X86_V4"
suite=/share/containers.yaml

mkfs.ext4 -q /dev/nvme0n1 && mkdir -p /data && mount /dev/nvme0n1 /data
mkfs.ext4 -q /dev/nvme1n1 && mkdir -p /mnt/volume && mount /dev/nvme1n1 /mnt/volume
mkdir -p /work /share/containers /etc/docker /etc/containers && tar -C /work -xf /share/tree.tar
printf '{"data-root": "/data/docker"}' >/etc/docker/daemon.json
printf '[storage]\ndriver="overlay"\ngraphroot="/data/podman"\nrunroot="/run/containers/storage"\n' >/etc/containers/storage.conf
printf '[containers]\nenv=["NPY_DISABLE_CPU_FEATURES=%s"]\n' "$NPY_DISABLE_CPU_FEATURES" >/etc/containers/containers.conf
cd /work || exit 1
wanted=$(python3 -c 'from volbench.machine.placement.docker.image_names import tools_image; print(tools_image())')

# run_limited PROGRAM NAME OUT: a run; the server's group may write 25 times a second from its start on
run_limited() {
    program=$1
    (
        for _ in $(seq 2000); do
            id=$($program ps --filter name=01-volume-server -q --no-trunc)
            unit=$(basename "$(find /sys/fs/cgroup -maxdepth 2 -type d -name "*$id*.scope" 2>/dev/null | head -1)")
            [ -n "$id" ] && systemctl set-property --runtime "$unit" "IOWriteIOPSMax=/dev/nvme1n1 25" && break
            sleep 0.3
        done
    ) &
    python3 -m volbench run $suite --target docker --volume volume=path:/mnt/volume --out "$3/limited" --yes
    wait
}

for engine in docker podman; do
    [ $engine = docker ] && systemctl start docker || systemctl start podman.socket
    [ $engine = podman ] && export DOCKER_HOST=unix:///run/podman/podman.sock
    loaded=$($engine load -i /share/images.tar | sed -n 's/^Loaded image: *//p' | grep tools)
    $engine tag "$loaded" "$wanted"
    python3 -m volbench run $suite --target docker --volume volume=path:/mnt/volume --out /share/containers/$engine --yes
    run_limited $engine limited /share/containers/$engine
    systemctl stop docker docker.socket containerd podman.socket podman 2>/dev/null
done

useradd --create-home dba && loginctl enable-linger dba
install -d -o dba /mnt/volume/dba /data/dba /home/dba/.config/containers
printf '[storage]\ndriver="overlay"\ngraphroot="/data/dba/storage"\n' >/home/dba/.config/containers/storage.conf
chown -R dba: /home/dba
export XDG_RUNTIME_DIR=/run/user/$(id -u dba) HOME=/home/dba XDG_CACHE_HOME=/data/dba/cache
export DOCKER_HOST=unix://$XDG_RUNTIME_DIR/podman/podman.sock
until [ -S "$XDG_RUNTIME_DIR/bus" ]; do sleep 0.2; done
as_dba() { runuser -u dba --preserve-environment -- "$@"; }
as_dba systemctl --user start podman.socket
loaded=$(as_dba podman load -i /share/images.tar | sed -n 's/^Loaded image: *//p' | grep tools)
as_dba podman tag "$loaded" "$wanted"
# The first container with the user's number copies the image, which takes a minute of an emulated processor.
for image in $(as_dba podman images --format '{{.Repository}}:{{.Tag}}'); do
    as_dba podman run --rm --userns keep-id --network none --entrypoint true "$image"
done
as_dba python3 -m volbench run $suite --target docker --volume volume=path:/mnt/volume/dba --out /data/dba/results --yes
cp -r /data/dba/results /share/containers/podman-rootless
