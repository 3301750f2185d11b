# Makes one stack, records what the kernel shows of it, and undoes it. Variables: NAME, MAKE, END; sourced inside.
A=/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume0 B=/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume1
C=/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume2 D=/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_volume3
for letter in A B C D; do declare $letter=$(readlink -f "${!letter}"); done
mkdir -p /mnt/data /mnt/other /run/lvm /run/lock

. /opt/volbench/tree/tests/lab/vm/nfs_server.sh

undo() {
  set +e
  umount /mnt/data; rpc.nfsd 0 2>/dev/null; exportfs -ua 2>/dev/null; umount /mnt/other
  eval "$END"
  vgchange -qq -an vg 2>/dev/null; vgremove -qq -ff -y vg 2>/dev/null; [ -b /dev/md0 ] && mdadm -q --stop /dev/md0
  dmsetup remove_all 2>/dev/null
  udevadm settle; wipefs -qaf "${A}"p* "$A" "$B" "$C" "$D" 2>/dev/null
  for d in "$A" "$B" "$C" "$D"; do dd if=/dev/zero of="$d" bs=1M count=8 conv=fsync status=none; sfdisk -q --delete "$d" 2>/dev/null; blockdev --rereadpt "$d"; done
  udevadm settle
}
trap undo EXIT
eval "$MAKE"
python3 /opt/volbench/tree/tests/lab/vm/kernel_files.py "$NAME" /mnt/data "/share/stacks/$NAME.json"
