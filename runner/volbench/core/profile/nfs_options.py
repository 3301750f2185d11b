"""Mount options of NFS, checked before the mount: mount.nfs reports an invalid one only when it mounts.

The names are those of nfs(5) and of the kernel's table of parameters (fs/nfs/fs_context.c), with those of mount(8)
that apply to every file system. Kernels add names, so an unknown name is a fault only if it resembles a known one.
"""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.base.nearest import nearest_match


def _option_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBERS = _option_names(
    "acdirmax acdirmin acregmax acregmin actimeo bsize max_connect minorversion mountport mountvers namlen "
    "nconnect port retrans retry rsize timeo wsize"
)
_TEXTS = _option_names(
    "addr clientaddr comment context defcontext fscontext local_lock lookupcache mountaddr mounthost mountproto "
    "nfsvers proto rootcontext sec vers write xprtsec"
)
_SWITCHES = _option_names("ac acl cto lock migration posix resvport sharecache softreval trunkdiscovery intr")
"""With and without `no` before them."""
_FLAGS = _option_names(
    "async auto bg defaults dev diratime dirsync exec fg group hard iversion lazytime loud mand noatime noauto "
    "nodev nodiratime noexec nofail noiversion nolazytime nomand norelatime nostrictatime nosuid nouser owner rdma "
    "relatime remount ro rw silent sloppy soft softerr strictatime suid sync tcp udp user users v2 v3 v4 v4.0 v4.1 "
    "v4.2 _netdev atime"
)
_EITHER = frozenset({"fsc", "nofsc", "rdirplus", "nordirplus"})
"""Alone or, on newer kernels, with a value."""
_OPTIONS = _NUMBERS | _TEXTS | _SWITCHES | _FLAGS | _EITHER | {f"no{name}" for name in _SWITCHES}
_VERSIONS = ("2", "3", "4", "4.0", "4.1", "4.2")
_SIMILARITY_MIN = 0.75


def nfs_option_faults(text: str) -> Iterator[str]:
    """Yield what is wrong with the mount options of a SPEC, such as `vers=4.1,nconnect=4`."""
    for option in text.split(","):
        name, separator, value = option.partition("=")
        if name not in _OPTIONS:
            nearest = (
                None if name.startswith(("x-", "X-")) else nearest_match(name, _OPTIONS, cutoff=_SIMILARITY_MIN)
            )
            if nearest is not None:
                yield f"NFS has no mount option {name!r}, perhaps you meant {nearest!r}"
        elif name in _NUMBERS | _TEXTS and not value:
            yield f"the mount option {name!r} needs a value"
        elif name in _NUMBERS and not value.isdecimal():
            yield f"the mount option {name!r} is a number, not {value!r}"
        elif name in {"vers", "nfsvers"} and value not in _VERSIONS:
            yield f"{name}={value}: it is one of {', '.join(_VERSIONS)}"
        elif separator and name not in _NUMBERS | _TEXTS | _EITHER:
            yield f"the mount option {name!r} takes no value"
