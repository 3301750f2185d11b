{{- define "volbench.labels" -}}
app.kubernetes.io/name: volbench
app.kubernetes.io/component: {{ . }}
app.kubernetes.io/managed-by: volbench
app.kubernetes.io/part-of: volbench
{{- end }}
{{- define "volbench.further" -}}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "volbench.job" -}}
{{- $marks := list .Values.labels .Values.annotations }}
{{- $measured := list .Values.suite .Values.options (include "volbench.image" .) .Values.resume .Values.resultsTo .Values.run $marks }}
{{- printf "%s-%s" .Release.Name ($measured | toJson | sha256sum | trunc 8) }}
{{- end }}
{{- define "volbench.options" -}}
{{- $options := .Values.options }}
{{- range $option, $values := dict "labels" .Values.labels "annotations" .Values.annotations }}
{{- $pairs := list }}
{{- range $key, $value := $values }}{{- $pairs = append $pairs (printf "%s=%s" $key $value) }}{{- end }}
{{- if $pairs }}{{- $options = append $options (printf "--target-option=%s=%s" $option (join "," $pairs)) }}{{- end }}
{{- end }}
{{- toYaml $options }}
{{- end }}
{{- define "volbench.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
