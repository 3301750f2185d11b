"""Commands about Kubernetes: manifests, and runs whose orchestrator is in the cluster."""
