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
RayCluster: {group: ray.io, resource: rayclusters, parent: rayjobs}
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

{{/* Mistakes that the schema cannot tell. */}}
{{- define "controller.check" -}}
{{- $names := dict -}}
{{- range $i, $pool := .Values.config.pools -}}
{{- if hasKey $names $pool.name }}{{ fail (printf "config.pools[%d].name: %q is the name of another pool too" $i $pool.name) }}{{ end -}}
{{- $_ := set $names $pool.name true -}}
{{- end -}}
{{- if and .Values.tls.clientCertificate (not .Values.tls.secretName) }}{{ fail "tls.clientCertificate: needs tls.secretName" }}{{ end -}}
{{- range $key, $_ := include "controller.labels" . | fromYaml -}}
{{- if hasKey ($.Values.podLabels | default dict) $key }}{{ fail (printf "podLabels: %q is the chart's own" $key) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The names of the pools, as a list of an expression. */}}
{{- define "controller.pools" -}}
{{- $names := list }}{{ range .Values.config.pools }}{{ $names = append $names .name }}{{ end -}}
{{- $names | toJson | replace "\"" "'" -}}
{{- end -}}

{{/* The labels of the node types of the job's pool, as an expression. */}}
{{- define "controller.types" -}}
{{- $types := dict -}}
{{- range .Values.config.pools -}}
{{- $labels := list }}{{ range .nodeTypes | default list }}{{ $labels = append $labels .labels }}{{ end -}}
{{- if $labels }}{{ $_ := set $types .name $labels }}{{ end -}}
{{- end -}}
{{- if $types }}{{ $types | toJson | replace "\"" "'" }}[?oldObject.metadata.?labels.orValue({})[?'elastalloc.dev/pool'].orValue('')].orValue([]){{ end -}}
{{- end -}}

{{/* Whether a pod template is the same, or only selects another node type of the pool while the job is suspended:
     (list NEW OLD TYPES). */}}
{{- define "controller.sameTemplate" -}}
{{- $new := index . 0 }}{{ $old := index . 1 }}{{ $types := index . 2 -}}
({{ $new }} == {{ $old }}
{{- if $types }} || oldObject.spec.?suspend.orValue(false)
  && {{ include "controller.sameBut" (list $new $old (list "spec")) }}
  && {{ include "controller.sameBut" (list (print $new ".spec") (print $old ".spec") (list "nodeSelector")) }}
  && {{ $new }}.spec.?nodeSelector.orValue({}).all(k, {{ $types }}.exists(t, k in t) || {{ $old }}.spec.?nodeSelector[?k].orValue('') == {{ $new }}.spec.nodeSelector[k])
  && {{ $old }}.spec.?nodeSelector.orValue({}).all(k, {{ $types }}.exists(t, k in t) || k in {{ $new }}.spec.?nodeSelector.orValue({}))
  && {{ $types }}.exists(t, t.all(k, {{ $new }}.spec.?nodeSelector[?k].orValue('') == t[k]))
{{- end }})
{{- end -}}

{{/* What may change of the specification of a kind: (list KIND NODES TYPES), NODES being the most for
     one job, and TYPES the labels of the node types. */}}
{{- define "controller.specification" -}}
{{- $new := "object.spec" }}{{ $old := "oldObject.spec" }}{{ $kind := index . 0 }}{{ $most := index . 1 | int }}{{ $types := index . 2 -}}
{{- if eq $kind "Job" -}}
{{ include "controller.sameBut" (list $new $old (list "parallelism" "completions" "suspend" "template")) }}
&& {{ include "controller.sameTemplate" (list "object.spec.template" "oldObject.spec.template" $types) }}
&& (object.spec == oldObject.spec || object.spec.parallelism == object.spec.completions)
&& (object.spec.parallelism == oldObject.spec.parallelism || 0 < object.spec.parallelism && object.spec.parallelism <= {{ $most }})
{{- else if eq $kind "JobSet" -}}
{{ include "controller.sameBut" (list $new $old (list "replicatedJobs" "suspend")) }}
&& object.spec.replicatedJobs.size() == oldObject.spec.replicatedJobs.size()
&& oldObject.spec.replicatedJobs.all(o, object.spec.replicatedJobs.exists(n, n.name == o.name
  && {{ include "controller.sameBut" (list "n" "o" (list "template")) }}
  && {{ include "controller.sameBut" (list "n.template" "o.template" (list "spec")) }}
  && {{ include "controller.sameBut" (list "n.template.spec" "o.template.spec" (list "parallelism" "completions" "template")) }}
  && {{ include "controller.sameTemplate" (list "n.template.spec.template" "o.template.spec.template" $types) }}
  && (n == o || n.template.spec.parallelism == n.template.spec.completions
  && 0 < n.template.spec.parallelism && n.template.spec.parallelism <= {{ $most }})))
{{- else if eq $kind "RayCluster" -}}
{{ include "controller.sameBut" (list $new $old (list "workerGroupSpecs" "suspend")) }}
&& object.spec.workerGroupSpecs.size() == oldObject.spec.workerGroupSpecs.size()
&& oldObject.spec.workerGroupSpecs.all(o, object.spec.workerGroupSpecs.exists(n, n.groupName == o.groupName
  && {{ include "controller.sameBut" (list "n" "o" (list "replicas")) }}
  && (n == o || n.replicas <= {{ $most }})))
{{- else if eq $kind "PyTorchJob" -}}
{{ include "controller.sameBut" (list $new $old (list "pytorchReplicaSpecs" "runPolicy")) }}
&& {{ include "controller.sameBut" (list "object.spec.?runPolicy.orValue({})" "oldObject.spec.?runPolicy.orValue({})" (list "suspend")) }}
&& {{ include "controller.sameBut" (list "object.spec.pytorchReplicaSpecs" "oldObject.spec.pytorchReplicaSpecs" (list "Worker")) }}
&& {{ include "controller.sameBut" (list "object.spec.pytorchReplicaSpecs.?Worker.orValue({})" "oldObject.spec.pytorchReplicaSpecs.?Worker.orValue({})" (list "replicas")) }}
&& (object.spec.pytorchReplicaSpecs == oldObject.spec.pytorchReplicaSpecs || object.spec.pytorchReplicaSpecs.Worker.replicas <= {{ $most }})
{{- else if eq $kind "TrainJob" -}}
{{ include "controller.sameBut" (list $new $old (list "suspend")) }}
{{- else -}}
{{ fail (printf "what may change of the specification of a %s?" $kind) }}
{{- end -}}
{{- end -}}

{{/* recording.maxBytes in MiB. */}}
{{- define "controller.recordingMebibytes" -}}
{{- $maxBytes := .Values.recording.maxBytes -}}
{{- $number := $maxBytes | trimSuffix "MiB" | trimSuffix "GiB" | int -}}
{{- if hasSuffix "GiB" $maxBytes }}{{ mul 1024 $number }}{{ else }}{{ $number }}{{ end -}}
{{- end -}}
