{{/* What the values ask for, as JSON: see conditions and words in scripts/chart/values.ts. */}}
{{- define "berth.facts" -}}
{{- $defaults := include "berth.defaults" . | fromJson }}
{{- $name := ternary "berth" (printf "berth-%s" .Values.installation) (eq .Values.installation "berth") }}

{{- /* Documents, by name as Berth reads them. */}}
{{- $documents := .Values.documents }}
{{- with .Values.fleet }}
{{- $documents = append $documents (dict "apiVersion" "berth.dev/v1alpha1" "kind" "Fleet" "metadata" (dict "name" "default") "spec" .) }}
{{- end }}
{{- $byName := dict }}
{{- $fleet := dict }}{{ $pools := dict }}{{ $server := dict }}
{{- $evicting := list }}{{ $architectureTaints := list }}{{ $cronJobs := list }}
{{- range $documents }}
{{- $spec := .spec | default dict }}
{{- if eq .kind "NodeFootprint" }}{{ $_ := set $byName .metadata.name $spec }}{{ end }}
{{- if eq .kind "Fleet" }}{{ $fleet = $spec }}{{ end }}
{{- if eq .kind "WorkerPools" }}{{ $pools = mergeOverwrite (deepCopy $defaults.pools) (deepCopy $spec) }}{{ end }}
{{- if eq .kind "AdmissionServer" }}{{ $server = mergeOverwrite (dict "bindAddress" ":8443") (deepCopy $spec) }}{{ end }}
{{- if and (eq .kind "StartupGate") (eq (dig "taint" "effect" "" $spec) "NoExecute") }}
{{- $evicting = append $evicting (dig "taint" "key" "startup.k8s.io/initializing" $spec) }}
{{- end }}
{{- if eq .kind "ArchitecturePolicy" }}{{ with dig "taint" "key" "" $spec }}{{ $architectureTaints = append $architectureTaints . }}{{ end }}{{ end }}
{{- if eq .kind "NodeNotifier" }}{{ with dig "job" "cronJob" "" $spec }}{{ $cronJobs = append $cronJobs . }}{{ end }}{{ end }}
{{- end }}
{{- if and $pools.wait (not (kindIs "map" $pools.wait)) }}{{ fail "documents: wait of WorkerPools is an object" }}{{ end }}
{{- with $pools.wait }}{{ $_ := set $pools "wait" (mergeOverwrite (deepCopy $defaults.wait) .) }}{{ end }}

{{- /* The configuration of datum-cloud/compute, as Berth reads it. */}}
{{- $place := "/etc/berth/config" }}
{{- $operator := .Values.serverConfig | default dict }}
{{- if $operator }}
{{- $place = "/etc/berth/operator" }}
{{- $discovery := $operator.discovery | default dict }}
{{- $fleet = dict "mode" (ternary "cell" "single" .Values.enableCellControllers) "provider" "external" }}
{{- with $discovery.clusterName }}{{ $_ := set $fleet "cell" . }}{{ end }}
{{- if regexMatch "NetworkingIntegration=(f|F|0)" .Values.featureGates }}{{ $_ := set $fleet "networking" "Off" }}{{ end }}
{{- with coalesce $discovery.quotaKubeconfigPath $discovery.projectKubeconfigPath }}
{{- $_ := set $fleet "quota" (dict "from" "Projects" "kubeconfig" .) }}
{{- end }}
{{- end }}
{{- $isFleet := gt (len $fleet) 0 }}
{{- if $isFleet }}
{{- $fleet = mergeOverwrite (deepCopy $defaults.fleet) (deepCopy $fleet) }}
{{- if not (hasKey $fleet "namespaceSelector") }}
{{- $_ := set $fleet "namespaceSelector" (ternary $defaults.ofProjects dict (eq $fleet.mode "cell")) }}
{{- end }}
{{- end }}

{{- /* Files of Secrets: beside the file that names them, or in a folder of their own. */}}
{{- $quota := dict }}
{{- with dig "quota" "kubeconfig" "" $fleet }}
{{- $path := ternary (clean .) (clean (printf "%s/%s" $place .)) (isAbs .) }}
{{- $beside := hasPrefix (printf "%s/" $place) $path }}
{{- $short := trimPrefix (ternary (printf "%s/" $place) "/" $beside) $path }}
{{- $quota = dict "beside" $beside "path" $short "folder" (dir $short) "key" (base $path) }}
{{- end }}
{{- $mode := $fleet.mode | default "" }}
{{- $kubeconfigs := list }}
{{- if kindIs "map" $fleet.hub }}{{ $kubeconfigs = append $kubeconfigs $fleet.hub.kubeconfig }}{{ end }}
{{- if kindIs "map" $fleet.projects }}{{ range $fleet.projects.kubeconfigs }}{{ $kubeconfigs = append $kubeconfigs .kubeconfig }}{{ end }}{{ end }}
{{- $folders := list }}
{{- range $kubeconfigs }}{{ $folders = uniq (append $folders (dir (clean .))) }}{{ end }}
{{- range $folders }}
{{- if or (gt (len $folders) 1) (not (isAbs .)) (hasPrefix "/etc/berth/config/" (printf "%s/" .)) }}
{{- fail "fleet: the kubeconfigs of hub and projects must be in one folder of their own, such as /etc/federation" }}
{{- end }}
{{- end }}
{{- $certificates := dict }}
{{- with dig "webhookServer" "tls" "certDir" "" $operator }}
{{- $path := ternary (clean .) (clean (printf "%s/%s" $place .)) (isAbs .) }}
{{- $beside := hasPrefix (printf "%s/" $place) $path }}
{{- $certificates = dict "beside" $beside "folder" (trimPrefix (ternary (printf "%s/" $place) "/" $beside) $path) }}
{{- end }}

{{- /* What footprints hold. */}}
{{- $rules := dict }}{{ $order := list }}{{ $holds := list }}{{ $manages := false }}
{{- range $name := keys $byName | sortAlpha }}
{{- $spec := get $byName $name }}
{{- $preset := dig ($spec.preset | default "") dict $defaults.presets }}
{{- $hold := mergeOverwrite (dict "onDelete" "DeleteOwned" "ownedResources" list) (deepCopy $preset) (deepCopy ($spec.hold | default dict)) }}
{{- if eq (dig "agent" "nodeSelector" "" $spec) "Manage" }}{{ $manages = true }}{{ end }}
{{- if $hold.resource }}
{{- $holds = append $holds $hold }}
{{- $deletes := eq $hold.onDelete "DeleteOwned" }}
{{- $asked := list (dict "of" $hold.resource "verbs" (list "get" "list" "watch" "patch")) }}
{{- range $hold.ownedResources }}
{{- $asked = append $asked (dict "of" . "verbs" (ternary (list "list" "watch" "delete") (list "list" "watch") $deletes)) }}
{{- end }}
{{- range $asked }}
{{- $key := printf "%s.%s" .of.resource .of.group }}
{{- $known := get $rules $key | default (dict "verbs" list) }}
{{- $_ := set $rules $key (dict "group" .of.group "resource" .of.resource "verbs" (uniq (concat $known.verbs .verbs))) }}
{{- $order = uniq (append $order $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- $rulesOfHolds := list }}
{{- range $order }}{{ $rulesOfHolds = append $rulesOfHolds (get $rules .) }}{{ end }}

{{- /* What the policy lets Berth hold and delete. */}}
{{- if or .Values.workerPools $pools }}{{ $holds = append $holds (index $defaults.presets "agent-substrate/owner-uid") }}{{ end }}
{{- $finalizers := list }}{{ $owners := list }}{{ $asked := list }}
{{- range $holds }}
{{- $finalizers = append $finalizers .finalizer }}
{{- $owners = append $owners (ternary "v1" (printf "%s/" .resource.group) (eq .resource.group "")) }}
{{- $asked = append $asked .resource }}
{{- end }}
{{- range $holds }}{{ if eq .onDelete "DeleteOwned" }}{{ $asked = concat $asked .ownedResources }}{{ end }}{{ end }}
{{- $known := list "pods." "nodes." "daemonsets.apps" "deployments.apps" }}{{ $others := list }}{{ $otherResources := list }}
{{- range $asked }}
{{- $key := printf "%s.%s" .resource .group }}
{{- if not (has $key $known) }}
{{- $known = append $known $key }}
{{- $others = append $others . }}
{{- $otherResources = append $otherResources .resource }}
{{- end }}
{{- end }}

{{- $labelFiles := ternary (include "berth.originalLabels" . | fromJson) dict .Values.defaultLabelFiles }}
{{- $labelFiles = mergeOverwrite $labelFiles .Values.labelFiles }}
{{- $texts := list }}
{{- range $documents }}{{ $texts = append $texts (toYaml .) }}{{ end }}
{{- $webhook := $operator.webhookServer | default dict }}
{{- $webhookAddress := $server.bindAddress | default (printf ":%v" (ternary (int $webhook.port | default 9443) 8443 (hasKey $operator "webhookServer"))) }}
{{- $metricsAddress := dig "metricsServer" "bindAddress" "" $operator }}
{{- toJson (dict
  "name" $name
  "account" (.Values.serviceAccount.name | default (ternary $name "default" .Values.serviceAccount.create))
  "image" (include "berth.image" .)
  "labels" (merge (dict "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service) .Values.labels)
  "labelFiles" $labelFiles
  "documents" (join "\n---\n" $texts)
  "adopted" (dig "configuration" "name" "" $server)
  "webhookPort" (regexFind "[0-9]+$" $webhookAddress)
  "metricsPort" (regexFind "[0-9]+$" $metricsAddress | trimPrefix "0" | default "8080")
  "evictingTaints" (without (uniq $evicting) "startup.k8s.io/initializing")
  "architectureTaints" $architectureTaints
  "cronJobs" (uniq $cronJobs)
  "pools" $pools
  "fleet" $fleet
  "fleetLease" (printf "compute-%s%s" (ternary (printf "cell-%s" $fleet.cell) $mode (eq $mode "cell")) (ternary "" (printf ".%s" $name) (eq $name "berth")))
  "quota" $quota
  "federation" (first $folders | default "" | trimPrefix "/")
  "certificates" $certificates
  "holds" $rulesOfHolds
  "finalizers" $finalizers
  "owners" $owners
  "others" $others
  "otherResources" $otherResources
  "is" (dict
    "labelFiles" $labelFiles
    "config" (or $documents .Values.files)
    "adopted" (dig "configuration" "name" "" $server)
    "manage" $manages
    "holds" $rulesOfHolds
    "notifiers" $cronJobs
    "pools" $pools
    "poolWait" $pools.wait
    "fleet" $fleet
    "management" (eq $mode "management")
    "single" (eq $mode "single")
    "hubSelf" (eq (toString $fleet.hub) "self")
    "karmada" (eq (toString $fleet.driver) "karmada")
    "writeBack" (and (eq $mode "cell") $fleet.hub)
    "projectsSelf" (eq (toString $fleet.projects) "self")
    "pods" (eq ($fleet.provider | default "") "pods")
    "networks" (and $isFleet (ne $fleet.networking "Off"))
    "quota" $fleet.quota
    "quotaHere" (eq (dig "quota" "from" "" $fleet) "Cluster")
    "quotaAlone" (and $quota (not $quota.beside))
    "quotaBeside" $quota.beside
    "federation" $folders
    "certificatesAlone" (and $certificates (not $certificates.beside))
    "certificatesBeside" $certificates.beside
  )
) }}
{{- end }}

{{/* Values of the chart of k8s-auto-labeller name its own image. */}}
{{- define "berth.image" -}}
{{- if eq .Values.image.repository "adaptant/k8s-auto-labeller" }}localhost/berth:{{ .Chart.AppVersion }}
{{- else }}{{ with .Values.image }}
{{- $tag := ternary (printf ":%s" (.tag | default $.Chart.AppVersion)) "" (or (not .digest) (ne .tag "")) }}
{{- printf "%s%s%s" .repository $tag (ternary (printf "@%s" .digest) "" (ne .digest "")) }}
{{- end }}{{ end }}
{{- end }}

{{/* The key of a file in its ConfigMap. The schema allows no other characters in a path. */}}
{{- define "berth.key" -}}
{{- . | replace "_" "__" | replace "/" "_" }}
{{- end }}

{{/* Lists in CEL. */}}
{{- define "berth.cel" -}}
[{{ range $at, $it := . }}{{ if $at }}, {{ end }}{{ toJson $it }}{{ end }}]
{{- end }}

{{- define "berth.dyn" -}}
[{{ range $at, $it := . }}{{ if $at }}, {{ end }}dyn({{ toJson $it }}){{ end }}]
{{- end }}

{{/* Alternatives of a regular expression that match like globs, inside of a text of CEL. */}}
{{- define "berth.globs" -}}
{{- $all := list }}
{{- range . }}
{{- $parts := list }}
{{- range splitList "*" . }}{{ $parts = append $parts (regexQuoteMeta .) }}{{ end }}
{{- $all = append $all (join ".*" $parts) }}
{{- end }}
{{- join "|" $all | toJson | trimAll "\"" }}
{{- end }}

{{/* The requirements of a selector of namespaces. */}}
{{- define "berth.selector" -}}
{{- $all := list }}
{{- range $key, $value := .matchLabels }}{{ $all = append $all (dict "key" $key "operator" "In" "values" (list $value)) }}{{ end }}
{{- range concat $all (.matchExpressions | default list) }}
{{- $label := printf "namespaceObject.metadata.?labels[?%s]" (toJson .key) }}
{{- $not := ternary "!" "" (hasPrefix "NotIn" .operator | or (eq .operator "DoesNotExist")) }}
{{- if hasSuffix "In" .operator }} && {{ $not }}{{ $label }}.optMap(it, it in {{ include "berth.cel" (.values | default list) }}).orValue(false)
{{- else }} && {{ $not }}{{ $label }}.hasValue()
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty: the release installs this CRD, which no other installer has. Only the API server of the cluster knows. */}}
{{- define "berth.takesCrd" -}}
{{- $release := (index . 0).Release }}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (index . 1) }}
{{- $by := dig "metadata" "annotations" dict ($found | default dict) }}
{{- $isOurs := and (eq (get $by "meta.helm.sh/release-name") $release.Name) (eq (get $by "meta.helm.sh/release-namespace") $release.Namespace) }}
{{- ternary "true" "" (or (not $found) $isOurs (index . 0).Values.crds.takeOver) }}
{{- end }}
