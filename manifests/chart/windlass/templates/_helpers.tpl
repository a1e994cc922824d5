{{/*
Name of the namespaced objects: the release's, with the chart's name unless the release has it already. The ServiceAccount, the roles and
the policies have fixed names: the host, the policies and `windlass push` name them, and one cluster has one Windlass. At most 54
characters, because the Service appends `-metrics`, and the names of Pods append a hash.
*/}}
{{- define "windlass.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" -}}
{{- else if contains "windlass" .Release.Name -}}
{{- .Release.Name | trunc 54 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-windlass" .Release.Name | trunc 54 | trimSuffix "-" -}}
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

{{- define "windlass.annotations" -}}
{{- with .Values.commonAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image. global.imageRegistry replaces the registry of the repository, which has a dot or a port. */}}
{{- define "windlass.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with .Values.global.imageRegistry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What the Pods of hosts and of `helm test` have in common. */}}
{{- define "windlass.pod" -}}
serviceAccountName: windlass
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  # Compiled components. A new Pod compiles them again.
  - name: cache
    emptyDir:
      sizeLimit: {{ .Values.cache.sizeLimit }}
      {{- with .Values.cache.medium }}
      medium: {{ . }}
      {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* What their containers have in common. */}}
{{- define "windlass.container" -}}
image: {{ include "windlass.image" . | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
env:
  - name: WINDLASS_CACHE_DIR
    value: /var/cache/windlass/host
  - name: WINDLASS_NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
  {{- with .Values.otlp.endpoint }}
  - name: OTEL_EXPORTER_OTLP_ENDPOINT
    value: {{ . | quote }}
  {{- end }}
  {{- with .Values.otlp.protocol }}
  - name: OTEL_EXPORTER_OTLP_PROTOCOL
    value: {{ . | quote }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - name: cache
    mountPath: /var/cache/windlass
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Flags of `windlass run` that are set to a value, by the path of this value. */}}
{{- define "windlass.flags" -}}
workers: host.workers
max-memory: host.maxMemory
max-table-elements: host.maxTableElements
max-request-bytes: host.maxRequestBytes
max-response-bytes: host.maxResponseBytes
compile-memory: host.compileMemory
log: host.log
log-format: host.logFormat
leader-elect-lease-duration: leaderElection.leaseDuration
leader-elect-renew-deadline: leaderElection.renewDeadline
leader-elect-retry-period: leaderElection.retryPeriod
{{- end }}

{{/* Flags of the host (`windlass-host --help`) from named values: a flag is set only where its value is. */}}
{{- define "windlass.args" -}}
{{- range $flag, $path := include "windlass.flags" . | fromYaml }}
{{- $value := $.Values }}
{{- range splitList "." $path }}
{{- $value = index $value . }}
{{- end }}
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
{{- if gt (int .Values.shards) 1 }}
- {{ printf "--shards=%d" (int .Values.shards) }}
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

{{/* TCP ports that the host connects to: networkPolicy.tcpPorts, and those of registries without TLS and of the Collector. */}}
{{- define "windlass.tcpPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.tcpPorts }}
{{- $ports = append $ports (int .) }}
{{- end }}
{{- range .Values.host.plainHttp }}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default 80 | int) }}
{{- end }}
{{- with .Values.otlp.endpoint }}
{{- $url := urlParse . }}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default 80 | int) }}
{{- end }}
{{- uniq $ports | toJson }}
{{- end }}

{{/* Combinations of values that cannot work, and that the schema cannot describe. */}}
{{- define "windlass.check" -}}
{{- if has .Release.Namespace (list "default" "kube-system" "kube-public" "kube-node-lease") }}
{{- fail (printf "Windlass needs a namespace of its own, and %s is shared: the host may impersonate its ServiceAccounts, and a policy denies them to write there. Set --namespace to another one" .Release.Namespace) }}
{{- end }}
{{- if gt (int .Values.shards) 1 }}
{{- if not .Values.leaderElection.enabled }}
{{- fail "shards is greater than 1 and leaderElection.enabled is false: hosts share the parents only with leader election. Set shards to 1, or leaderElection.enabled to true" }}
{{- end }}
{{- if gt (int .Values.shards) (int .Values.replicaCount) }}
{{- fail (printf "shards is %d and replicaCount is %d: a shard would have no host. Set replicaCount to at least the number of shards; one more is a standby" (int .Values.shards) (int .Values.replicaCount)) }}
{{- end }}
{{- end }}
{{- $several := gt (int .Values.replicaCount) 1 }}
{{- if and $several (not .Values.leaderElection.enabled) }}
{{- fail "replicaCount is greater than 1 and leaderElection.enabled is false: every host but one would exit. Set replicaCount to 1, or leaderElection.enabled to true" }}
{{- end }}
{{- if and $several (eq (default "" .Values.strategy.type) "Recreate") }}
{{- fail "replicaCount is greater than 1 and strategy.type is Recreate: an update would end all hosts, also the standbys, before it starts a new one. Remove strategy.type" }}
{{- end }}
{{- if and (not .Values.leaderElection.enabled) (eq (default "" .Values.strategy.type) "RollingUpdate") }}
{{- fail "leaderElection.enabled is false and strategy.type is RollingUpdate: a new host would exit while the old one runs. Remove strategy.type" }}
{{- end }}
{{- $flags := dict "leader-elect" "leaderElection.enabled" "shards" "shards" "require-signatures" "host.requireSignatures" "log-traces" "host.logTraces" "plain-http" "host.plainHttp" "metrics-addr" "metrics.enabled" }}
{{- $flags = merge $flags (include "windlass.flags" . | fromYaml) }}
{{- range .Values.extraArgs }}
{{- with get $flags (regexReplaceAll "=.*$" (trimPrefix "--" .) "") }}
{{- fail (printf "extraArgs has a flag that the value %s sets: set this value instead" .) }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
{{- fail "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are true: Prometheus would scrape each host twice. Set one of them to false" }}
{{- end }}
{{- if and (or .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled) (not .Values.metrics.enabled) }}
{{- fail "metrics.serviceMonitor.enabled or metrics.podMonitor.enabled is true and metrics.enabled is false: there would be nothing to scrape. Set metrics.enabled to true" }}
{{- end }}
{{- if and .Values.metrics.prometheusRule.enabled (not .Values.metrics.enabled) }}
{{- fail "metrics.prometheusRule.enabled is true and metrics.enabled is false: its alerts would have no metrics. Set metrics.enabled to true" }}
{{- end }}
{{- end }}
