{{- define "till.labels" -}}
app.kubernetes.io/name: till
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "till.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
