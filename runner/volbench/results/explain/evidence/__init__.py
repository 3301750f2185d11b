"""What series show by themselves: levels, limits, changes, stalls, and the layers that operations pass."""
