"""The kubernetes target."""
