# Exports of an ext4 to this machine, as /mnt/other/export (NFS 3) and / (NFS 4); sourced inside.
# lab_serve OPTION: of what is mounted on /mnt/other, with `sync` or `async`. lab_export: `sync`, of a new one on $A.
lab_serve() {
  modprobe nfsd; modprobe nfs
  mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
  mkdir -p /mnt/other/export /run/rpcbind
  pgrep -x rpcbind >/dev/null || rpcbind
  pgrep -x rpc.statd >/dev/null || rpc.statd
  echo "/mnt/other/export 127.0.0.1(rw,$1,no_root_squash,fsid=0,no_subtree_check)" >/etc/exports
  rpc.nfsd 8; echo Y >/proc/fs/nfsd/v4_end_grace || true # no wait for clients of an earlier boot
  pgrep -x rpc.mountd >/dev/null || rpc.mountd; exportfs -ra
}
lab_export() {
  mkfs.ext4 -q "$A"; mount "$A" /mnt/other; lab_serve sync
}
