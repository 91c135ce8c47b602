{{/* The name of every object of the namespace. */}}
{{- define "controller.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of every object of the cluster: releases of several namespaces are apart. */}}
{{- define "controller.clusterName" -}}
{{ include "controller.fullname" . }}.{{ .Release.Namespace }}
{{- end -}}

{{/* What selects the pods; it never changes in the life of a release. The rules and the
     dashboard know the controllers by the name "elastalloc-controller". */}}
{{- define "controller.selectorLabels" -}}
app.kubernetes.io/name: elastalloc-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "controller.labels" -}}
{{ include "controller.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "controller.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Where each kind of jobs is in the API: a test compares this with the controller's kinds. */}}
{{- define "controller.resources" -}}
Job: {group: batch, resource: jobs}
JobSet: {group: jobset.x-k8s.io, resource: jobsets}
RayCluster: {group: ray.io, resource: rayclusters}
PyTorchJob: {group: kubeflow.org, resource: pytorchjobs}
TrainJob: {group: trainer.kubeflow.org, resource: trainjobs}
{{- end -}}

{{/* The kinds whose objects are changed: a TrainJob keeps its size in a JobSet. */}}
{{- define "controller.kinds" -}}
{{- $kinds := .Values.config.kinds }}{{ $known := include "controller.resources" . | fromYaml -}}
{{- range $kinds }}{{ if not (hasKey $known .) -}}
{{- fail (printf "config.kinds: unknown kind %q (want one of %s)" . (keys $known | sortAlpha | join ", ")) -}}
{{- end }}{{ end -}}
{{- if has "TrainJob" $kinds }}{{ $kinds = append $kinds "JobSet" | uniq }}{{ end -}}
{{- $kinds | sortAlpha | toJson -}}
{{- end -}}

{{/* An expression that two maps are the same but for some keys: (list A B KEYS). */}}
{{- define "controller.sameBut" -}}
{{- $a := index . 0 }}{{ $b := index . 1 }}{{ $keys := index . 2 | toJson | replace "\"" "'" -}}
({{ $a }}.all(k, k in {{ $keys }} || (k in {{ $b }} && {{ $a }}[k] == {{ $b }}[k])) && {{ $b }}.all(k, k in {{ $keys }} || k in {{ $a }}))
{{- end -}}

{{/* What may change of the specification of a kind. */}}
{{- define "controller.specification" -}}
{{- $new := "object.spec" }}{{ $old := "oldObject.spec" -}}
{{- if eq . "Job" -}}
{{ include "controller.sameBut" (list $new $old (list "parallelism" "completions" "suspend")) }}
&& (object.spec == oldObject.spec || object.spec.parallelism == object.spec.completions)
{{- else if eq . "JobSet" -}}
{{ include "controller.sameBut" (list $new $old (list "replicatedJobs" "suspend")) }}
&& object.spec.replicatedJobs.size() == oldObject.spec.replicatedJobs.size()
&& oldObject.spec.replicatedJobs.all(o, object.spec.replicatedJobs.exists(n, n.name == o.name
  && {{ include "controller.sameBut" (list "n" "o" (list "template")) }}
  && {{ include "controller.sameBut" (list "n.template" "o.template" (list "spec")) }}
  && {{ include "controller.sameBut" (list "n.template.spec" "o.template.spec" (list "parallelism" "completions")) }}
  && (n == o || n.template.spec.parallelism == n.template.spec.completions)))
{{- else if eq . "RayCluster" -}}
{{ include "controller.sameBut" (list $new $old (list "workerGroupSpecs" "suspend")) }}
&& object.spec.workerGroupSpecs.size() == oldObject.spec.workerGroupSpecs.size()
&& oldObject.spec.workerGroupSpecs.all(o, object.spec.workerGroupSpecs.exists(n, n.groupName == o.groupName
  && {{ include "controller.sameBut" (list "n" "o" (list "replicas")) }}))
{{- else if eq . "PyTorchJob" -}}
{{ include "controller.sameBut" (list $new $old (list "pytorchReplicaSpecs" "runPolicy")) }}
&& {{ include "controller.sameBut" (list "object.spec.?runPolicy.orValue({})" "oldObject.spec.?runPolicy.orValue({})" (list "suspend")) }}
&& {{ include "controller.sameBut" (list "object.spec.pytorchReplicaSpecs" "oldObject.spec.pytorchReplicaSpecs" (list "Worker")) }}
&& {{ include "controller.sameBut" (list "object.spec.pytorchReplicaSpecs.?Worker.orValue({})" "oldObject.spec.pytorchReplicaSpecs.?Worker.orValue({})" (list "replicas")) }}
{{- else -}}
{{ include "controller.sameBut" (list $new $old (list "suspend")) }}
{{- end -}}
{{- end -}}
