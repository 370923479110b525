{{- define "ctl.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 40 characters, since Kubernetes adds to it what makes the names of pods. */ -}}
{{- define "ctl.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* What is of the cluster is shared by all namespaces, and so are its names. */ -}}
{{- define "ctl.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "ctl.fullname" .) -}}
{{- end -}}

{{- define "ctl.selector" -}}
app.kubernetes.io/name: {{ include "ctl.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ctl.labels" -}}
{{ include "ctl.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "ctl.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "ctl.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "ctl.lease" -}}
{{- .Values.leaderElection.leaseName | default (include "ctl.fullname" .) -}}
{{- end -}}

{{- define "ctl.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /* "true" if the rights for the handled objects are granted in all namespaces. */ -}}
{{- define "ctl.everywhere" -}}
{{- if or .Values.watch.clusterWide .Values.watch.patterns }}true{{ end -}}
{{- end -}}

{{- /* The namespaces that are served by name, as a JSON list. */ -}}
{{- define "ctl.namespaces" -}}
{{- if include "ctl.everywhere" . -}}
[]
{{- else -}}
{{- .Values.watch.namespaces | default (list .Release.Namespace) | uniq | sortAlpha | toJson -}}
{{- end -}}
{{- end -}}

{{- define "ctl.definitions" -}}
{{- if eq (toString .Values.rbac.definitions) "auto" -}}
{{- if .Values.watch.clusterWide }}true{{ end -}}
{{- else if .Values.rbac.definitions -}}true
{{- end -}}
{{- end -}}

{{- /* What contradicts itself is said here; single values are judged by values.schema.json. */ -}}
{{- define "ctl.check" -}}
{{- $v := .Values -}}
{{- if not (or $v.operator.files $v.operator.modules $v.operator.inline) -}}
{{- fail "Nothing to run: set operator.files or operator.modules to what is in your image, or operator.inline to the text of a file (--set-file operator.inline.operator\\.py=operator.py)." -}}
{{- end -}}
{{- if and $v.watch.clusterWide (or $v.watch.namespaces $v.watch.patterns) -}}
{{- fail "watch.clusterWide serves all namespaces: leave watch.namespaces and watch.patterns out, or set it to false." -}}
{{- end -}}
{{- if and (not $v.leaderElection.enabled) (gt (int $v.replicaCount) 1) -}}
{{- fail (printf "replicaCount is %d without leaderElection.enabled: each change would be handled by every replica. Enable it, or set replicaCount to 1." (int $v.replicaCount)) -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled $v.podMonitor.enabled -}}
{{- fail "serviceMonitor.enabled and podMonitor.enabled would scrape each pod twice: choose one." -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled (not $v.service.enabled) -}}
{{- fail "serviceMonitor.enabled needs service.enabled; or use podMonitor.enabled." -}}
{{- end -}}
{{- if and $v.peering.create (not $v.peering.name) -}}
{{- fail "peering.create needs peering.name." -}}
{{- end -}}
{{- if and $v.peering.create $v.peering.installCRDs -}}
{{- fail "peering.create needs the definitions to be there before: install them by `kubectl apply -f examples/peering.yaml`, and leave peering.installCRDs out." -}}
{{- end -}}
{{- if and $v.peering.create $v.watch.patterns -}}
{{- fail "peering.create cannot tell which namespaces watch.patterns will match: create the KopfPeering objects there yourself." -}}
{{- end -}}
{{- end -}}

{{- /* The arguments after `ctl run`. */ -}}
{{- define "ctl.args" -}}
{{- $v := .Values -}}
- run
{{- if $v.watch.clusterWide }}
- --all-namespaces
{{- end }}
{{- range concat (fromJsonArray (include "ctl.namespaces" .)) $v.watch.patterns }}
- {{ printf "--namespace=%s" . | quote }}
{{- end }}
- --http=:{{ $v.http.port }}
{{- if ne (toString $v.http.debugPages) "auto" }}
- --{{ if not $v.http.debugPages }}no-{{ end }}debug-pages
{{- end }}
- --log-format={{ $v.operator.logFormat }}
{{- if $v.leaderElection.enabled }}
- --leader-elect
- --lease-name={{ include "ctl.lease" . }}
- --lease-namespace={{ .Release.Namespace }}
{{- else }}
- --no-leader-elect
{{- end }}
{{- if $v.peering.name }}
- --peering={{ $v.peering.name }}
- --priority={{ $v.peering.priority }}
{{- else }}
- --standalone
{{- end }}
{{- range $v.operator.args }}
- {{ . | quote }}
{{- end }}
{{- range $v.operator.modules }}
- {{ printf "--module=%s" . | quote }}
{{- end }}
{{- range $v.operator.files }}
- {{ . | quote }}
{{- end }}
{{- range $name, $_ := $v.operator.inline }}
- {{ printf "/operator/%s" $name | quote }}
{{- end }}
{{- end -}}
