"""The kinds of volumes: a directory, an NFS export, a Docker volume, a claim of a cluster."""
