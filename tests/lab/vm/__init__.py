"""A virtual machine with a Debian kernel of its own: NFS, NVMe, device mapper, md, netem, cgroup v2."""
