"""Where agents and servers run: on this machine, in containers, in a cluster."""
