#!/bin/sh
# Copies the results of a runner into a directory, with kubectl alone: sh k8s/runner/fetch.sh [DIRECTORY] [JOB] [NAMESPACE]
set -eu
into=${1:-results} job=${2:-volbench-runner} namespace=${3:-volbench}
kubectl() { command kubectl --namespace "$namespace" "$@"; }
uid=$(kubectl get job "$job" -o 'jsonpath={.metadata.uid}')
image=$(kubectl get job "$job" -o 'jsonpath={.spec.template.spec.containers[0].image}')
policy=$(kubectl get job "$job" -o 'jsonpath={.spec.template.spec.containers[0].imagePullPolicy}')
pod=volbench-fetch-$$
trap 'kubectl delete pod "$pod" --ignore-not-found --wait=false' EXIT
sed -e "s|POD|$pod|" -e "s|IMAGE|$image|" -e "s|POLICY|$policy|" -e "s|JOB_UID|$uid|" "$(dirname "$0")/fetch.yaml" | kubectl apply -f -
kubectl wait --for=condition=Ready --timeout=10m "pod/$pod"
mkdir -p "$into"
kubectl exec "$pod" -- tar -cf - -C /results . | tar -xf - -C "$into" --no-same-owner
echo "results: $into"
