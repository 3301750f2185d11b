"""The client of a Kubernetes cluster."""
