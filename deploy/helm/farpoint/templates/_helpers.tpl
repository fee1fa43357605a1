{{- define "farpoint.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- $full | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "farpoint.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "farpoint.labels" -}}
{{ include "farpoint.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "farpoint.image" -}}
{{- with .Values.image }}
{{- $tag := .tag | default (printf "%s-%s" $.Chart.AppVersion (ternary "cuda" "cpu" (gt (int $.Values.gpu.count) 0))) }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end }}
{{- end }}

{{/* cpu, or cuda:0 to the last GPU of a pod; named, so that a missing GPU is an error. */}}
{{- define "farpoint.device" -}}
{{- $devices := list }}
{{- range until (int .Values.gpu.count) }}{{ $devices = append $devices (printf "cuda:%d" .) }}{{ end }}
{{- join "," $devices | default "cpu" }}
{{- end }}

{{/* What the image is tested with. */}}
{{- define "farpoint.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "farpoint.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* A value as the server reads it; toJson, for toString would write 33554432 as 3.3554432e+07. */}}
{{- define "farpoint.setting" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}
