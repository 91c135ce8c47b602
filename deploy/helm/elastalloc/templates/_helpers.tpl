{{/* The name of every object. */}}
{{- define "elastalloc.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What selects the pods; it never changes in the life of a release. The rules and
     the dashboard know the servers by the name "elastalloc". */}}
{{- define "elastalloc.selectorLabels" -}}
app.kubernetes.io/name: elastalloc
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "elastalloc.labels" -}}
{{ include "elastalloc.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "elastalloc.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ include "elastalloc.fullname" . }}{{ else }}default{{ end -}}
{{- end -}}

{{- define "elastalloc.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* How many servers the deployment asks for; "" where that is up to the autoscaler. A
     number is needed all the same: without one a fresh install has a single server, and
     to turn autoscaling on would take all others away until the autoscaler has looked. */}}
{{- define "elastalloc.replicas" -}}
{{- if not .Values.autoscaling.enabled -}}
{{ .Values.replicas }}
{{- else if .Values.autoscaling.keepReplicas -}}
{{- $present := lookup "apps/v1" "Deployment" .Release.Namespace (include "elastalloc.fullname" .) -}}
{{ max (int .Values.autoscaling.minReplicas) (dig "spec" "replicas" 0 $present | int) }}
{{- end -}}
{{- end -}}

{{/* Size limit of the volume of recordings. Kubernetes evicts a pod whose volume exceeds it. A server
     exceeds maxBytes by at most its last call, which is up to 64 MiB. */}}
{{- define "elastalloc.recordingSizeLimit" -}}
{{- $maxBytes := .Values.recording.maxBytes -}}
{{- $mebibytes := $maxBytes | trimSuffix "MiB" | trimSuffix "GiB" | int -}}
{{- if hasSuffix "GiB" $maxBytes }}{{ $mebibytes = mul 1024 $mebibytes }}{{ end -}}
{{ add $mebibytes 128 }}Mi
{{- end -}}

{{/* Pods run as the image's user, cannot become another, and write only to /tmp and to
     the recording. */}}
{{- define "elastalloc.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "elastalloc.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
