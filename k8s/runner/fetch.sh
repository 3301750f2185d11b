#!/bin/sh
# Copies the results of a runner into a directory, with kubectl alone: sh k8s/runner/fetch.sh [DIRECTORY] [JOB or RUN_ID] [NAMESPACE]
# Of a run whose Job is gone: its id, and VOLBENCH_TOOLS_IMAGE names an image of the cells.
set -eu
into=${1:-results} job=${2:-volbench-runner} namespace=${3:-volbench}
kubectl() { command kubectl --namespace "$namespace" "$@"; }
new='' made=''
trap '[ -z "$made" ] || kubectl delete pod "$made" --wait=false; [ -z "$new" ] || rm -rf "$new"' EXIT
if uid=$(kubectl get job "$job" -o 'jsonpath={.metadata.uid}'); then
  image=$(kubectl get job "$job" -o 'jsonpath={.spec.template.spec.containers[0].image}')
  policy=$(kubectl get job "$job" -o 'jsonpath={.spec.template.spec.containers[0].imagePullPolicy}')
  claim=$(kubectl get job "$job" -o 'jsonpath={.spec.template.spec.volumes[?(@.name=="results")].persistentVolumeClaim.claimName}')
  source="/results/$uid/."
else
  case $job in *[!A-Za-z0-9._-]*) exit 2 ;; esac
  image=${VOLBENCH_TOOLS_IMAGE:?there is no such Job. To fetch a run by its id, set VOLBENCH_TOOLS_IMAGE to an image of the cells}
  policy=IfNotPresent claim=volbench-results source="/results/*/$job"
fi
# A volume is on one node at a time, so a pod of a runner that has it is asked; only without one a pod is made for it.
running='{range .items[?(@.status.phase=="Running")]}{.metadata.name}{" "}{.spec.volumes[*].persistentVolumeClaim.claimName}{"\n"}{end}'
pod=$(kubectl get pods -l app.kubernetes.io/component=runner -o "jsonpath=$running" | awk -v claim="$claim" '$2 == claim { print $1; exit }')
container=runner
if [ -z "$pod" ]; then
  pod=volbench-fetch-$$ made=volbench-fetch-$$ container=fetch
  sed -e "s|POD|$pod|" -e "s|IMAGE|$image|" -e "s|POLICY|$policy|" -e "s|CLAIM|$claim|" "$(dirname "$0")/fetch.yaml" | kubectl apply -f -
  kubectl wait --for=condition=Ready --timeout=10m "pod/$pod"
fi
mkdir -p "$into"
# A pod sends what it likes: into a directory of its own first, and only files and directories go on from there.
new=$(mktemp -d "$into/.fetch-XXXXXX")
# Copied there first: a run that goes on appends to some files while they are read.
kubectl exec "$pod" -c "$container" -- sh -c 'd=$(mktemp -d /tmp/fetch-XXXXXX) && trap "rm -rf $d" EXIT && cp -R '"$source"' "$d/" && tar -cf - -C "$d" .' | tar -xf - -C "$new" --no-same-owner
odd=$(find "$new" ! -type f ! -type d | head -n 1)
[ -z "$odd" ] || { echo "the pod's results have something else than files, such as $(basename "$odd" | tr -d '[:cntrl:]'); nothing was taken" >&2; exit 4; }
cp -R "$new/." "$into/"
echo "results: $into"
