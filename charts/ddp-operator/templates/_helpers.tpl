{{/* What all objects are called: the release's name, with the chart's unless it is in it already. */}}
{{- define "ddp-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The same with a last word: list CONTEXT WORD. The word is what stays when the whole is too long. */}}
{{- define "ddp-operator.named" -}}
{{- $word := index . 1 -}}
{{- $room := int (sub 62 (len $word)) -}}
{{- printf "%s-%s" (include "ddp-operator.fullname" (index . 0) | trunc $room | trimSuffix "-") $word -}}
{{- end -}}

{{- define "ddp-operator.serviceAccountName" -}}
{{- $own := ternary (include "ddp-operator.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $own .Values.serviceAccount.name -}}
{{- end -}}

{{/* Names are quoted wherever they are used: 1e5 and 007 are good names of releases and namespaces.
What the Deployment finds its pods by; can't be changed after the installation. */}}
{{- define "ddp-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Ours win over commonLabels. */}}
{{- define "ddp-operator.labels" -}}
{{- $own := include "ddp-operator.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{/* Name, namespace and labels of an object in the release's namespace: list CONTEXT NAME. */}}
{{- define "ddp-operator.metadata" -}}
{{- $ := index . 0 -}}
name: {{ index . 1 | quote }}
namespace: {{ $.Release.Namespace | quote }}
labels: {{- include "ddp-operator.labels" $ | nindent 2 }}
{{- end -}}

{{- define "ddp-operator.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Where the lease is: operators that look at the same jobs must meet there. */}}
{{- define "ddp-operator.leaseNamespace" -}}
{{- default .Release.Namespace .Values.watchNamespace -}}
{{- end -}}

{{/* Every pod of the chart is as Pod Security's `restricted` asks, that of `helm test` included. */}}
{{- define "ddp-operator.podSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int64 . }}
{{- end }}
{{- with .Values.runAsGroup }}
runAsGroup: {{ int64 . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "ddp-operator.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Names of services start with a letter, those of releases need not. */}}
{{- define "ddp-operator.serviceName" -}}
{{- printf "metrics-%s" (include "ddp-operator.fullname" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* /metrics is on the port of the probes, unless it is protected: the kubelet has neither the certificate nor the token. */}}
{{- define "ddp-operator.metricsPort" -}}
{{- ternary "8443" "8080" (or (ne .Values.metrics.tlsSecret "") (ne .Values.metrics.tokenSecret "")) -}}
{{- end -}}

{{- define "ddp-operator.metricsPortName" -}}
{{- ternary "health" "metrics" (eq (include "ddp-operator.metricsPort" .) "8080") -}}
{{- end -}}

{{/* How a monitor shows who it is and knows whom it asks. */}}
{{- define "ddp-operator.scrapeSecurity" -}}
{{- with .Values.metrics.tlsSecret }}
scheme: https
tlsConfig:
  serverName: {{ printf "%s.%s.svc" (include "ddp-operator.serviceName" $) $.Release.Namespace | quote }}
  ca:
    secret: {name: {{ . | quote }}, key: ca.crt}
{{- end }}
{{- with .Values.metrics.tokenSecret }}
authorization:
  credentials: {name: {{ . | quote }}, key: token}
{{- end }}
{{- end -}}

{{/* Metadata of an object of Prometheus' operator or Grafana: list CONTEXT NAME VALUES, the values having namespace and labels. */}}
{{- define "ddp-operator.monitoringMetadata" -}}
{{- $ := index . 0 -}}
{{- $own := index . 2 -}}
name: {{ index . 1 | quote }}
namespace: {{ default $.Release.Namespace $own.namespace | quote }}
labels: {{- toYaml (merge (include "ddp-operator.labels" $ | fromYaml) $own.labels $.Values.monitoring.labels) | nindent 2 }}
{{- end -}}

{{/* What users set of a monitor's endpoint. */}}
{{- define "ddp-operator.endpoint" -}}
{{- range $key := list "interval" "scrapeTimeout" "metricRelabelings" }}
{{- with get $ $key }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- end -}}
