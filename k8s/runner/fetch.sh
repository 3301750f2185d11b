#!/bin/sh
# Copies the results of a runner into a directory, with kubectl alone: sh k8s/runner/fetch.sh [DIRECTORY] [JOB] [NAMESPACE]
set -eu
into=${1:-results} job=${2:-volbench-runner} namespace=${3:-volbench}
kubectl() { command kubectl --namespace "$namespace" "$@"; }
uid=$(kubectl get job "$job" -o 'jsonpath={.metadata.uid}')
image=$(kubectl get job "$job" -o 'jsonpath={.spec.template.spec.containers[0].image}')
policy=$(kubectl get job "$job" -o 'jsonpath={.spec.template.spec.containers[0].imagePullPolicy}')
pod=volbench-fetch-$$
new=''
trap 'kubectl delete pod "$pod" --ignore-not-found --wait=false; [ -z "$new" ] || rm -rf "$new"' EXIT
sed -e "s|POD|$pod|" -e "s|IMAGE|$image|" -e "s|POLICY|$policy|" -e "s|JOB_UID|$uid|" "$(dirname "$0")/fetch.yaml" | kubectl apply -f -
kubectl wait --for=condition=Ready --timeout=10m "pod/$pod"
mkdir -p "$into"
# A pod sends what it likes: into a directory of its own first, and only files and directories go on from there.
new=$(mktemp -d "$into/.fetch-XXXXXX")
kubectl exec "$pod" -- tar -cf - -C /results . | tar -xf - -C "$new" --no-same-owner
odd=$(find "$new" ! -type f ! -type d | head -n 1)
[ -z "$odd" ] || { echo "the pod's results have something else than files, such as $(basename "$odd" | tr -d '[:cntrl:]'); nothing was taken" >&2; exit 4; }
cp -R "$new/." "$into/"
echo "results: $into"
