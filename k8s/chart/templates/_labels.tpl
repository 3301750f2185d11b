{{- define "volbench.labels" -}}
app.kubernetes.io/name: volbench
app.kubernetes.io/component: {{ . }}
app.kubernetes.io/managed-by: volbench
app.kubernetes.io/part-of: volbench
{{- end }}
{{- define "volbench.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
