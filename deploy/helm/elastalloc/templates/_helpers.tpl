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

{{/* Pods run as the image's user, cannot become another, and write to /tmp alone. */}}
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
