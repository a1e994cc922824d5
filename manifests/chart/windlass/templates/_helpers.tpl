{{/*
Name of the namespaced objects: the release's, with the chart's name unless the release has it already. The ServiceAccount, the roles and
the policies have fixed names: the host, the policies and `windlass push` name them, and one cluster has one Windlass.
*/}}
{{- define "windlass.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains "windlass" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-windlass" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Labels by which Deployment, Services and policies select the Pods. They must never change. */}}
{{- define "windlass.selectorLabels" -}}
app.kubernetes.io/name: windlass
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "windlass.labels" -}}
{{ include "windlass.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "windlass.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Flags of `windlass run` from named values: a flag is set only where its value is. */}}
{{- define "windlass.args" -}}
- run
{{- range $flag, $value := dict
      "workers" .Values.host.workers
      "max-memory" .Values.host.maxMemory
      "max-table-elements" .Values.host.maxTableElements
      "max-request-bytes" .Values.host.maxRequestBytes
      "max-response-bytes" .Values.host.maxResponseBytes
      "compile-memory" .Values.host.compileMemory
      "log" .Values.host.log
      "log-format" .Values.host.logFormat
      "leader-elect-lease-duration" .Values.leaderElection.leaseDuration
      "leader-elect-renew-deadline" .Values.leaderElection.renewDeadline
      "leader-elect-retry-period" .Values.leaderElection.retryPeriod
}}
{{- if $value }}
{{- if or (kindIs "float64" $value) (kindIs "int64" $value) }}
- {{ printf "--%s=%d" $flag (int64 $value) }}
{{- else }}
- {{ printf "--%s=%s" $flag $value | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if not .Values.leaderElection.enabled }}
- --leader-elect=false
{{- end }}
{{- if .Values.host.requireSignatures }}
- --require-signatures
{{- end }}
{{- if .Values.host.logTraces }}
- --log-traces
{{- end }}
{{- range .Values.host.plainHttp }}
- {{ printf "--plain-http=%s" . | quote }}
{{- end }}
{{- if not .Values.metrics.enabled }}
- --metrics-addr=0
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* Several replicas need leader election: without it, every host but one exits. */}}
{{- define "windlass.check" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) }}
{{- fail "replicaCount is greater than 1 and leaderElection.enabled is false: every host but one would exit. Set replicaCount to 1, or leaderElection.enabled to true" }}
{{- end }}
{{- end }}
