"""The protobuf messages that Go clients post, as far as the sandbox reads them: field numbers, names, types.

Field numbers are those of the published Kubernetes API definitions (v0.37). One message a paragraph, its
fields as `number:name:type`: `s` text, `b` bytes, `i` integer, `t` boolean, `d` double, `T` time, `U` time
with microseconds, `Q` quantity, `I` integer or text, `-` read and dropped, else a message. `*` before the
type is a list, `%` a map from text, `^` a message whose fields stand in the outer one.
"""

from typing import Final

MESSAGES: Final = """
Affinity 1:nodeAffinity:NodeAffinity 2:podAffinity:PodAffinity 3:podAntiAffinity:PodAntiAffinity
AggregationRule 1:clusterRoleSelectors:*LabelSelector
Capabilities 1:add:*s 2:drop:*s
ClusterRole 1:metadata:ObjectMeta 2:rules:*PolicyRule 3:aggregationRule:AggregationRule
ClusterRoleBinding 1:metadata:ObjectMeta 2:subjects:*Subject 3:roleRef:RoleRef
ConfigMap 1:metadata:ObjectMeta 4:immutable:t 2:data:%s 3:binaryData:%b
ConfigMapEnvSource 1:localObjectReference:^LocalObjectReference 2:optional:t
ConfigMapKeySelector 1:localObjectReference:^LocalObjectReference 2:key:s 3:optional:t
ConfigMapProjection 1:localObjectReference:^LocalObjectReference 2:items:*KeyToPath 4:optional:t
ConfigMapVolumeSource 1:localObjectReference:^LocalObjectReference 2:items:*KeyToPath 3:defaultMode:i 4:optional:t
  5:defaultUser:i
Container 1:name:s 2:image:s 3:command:*s 4:args:*s 5:workingDir:s 6:ports:*ContainerPort 19:envFrom:*EnvFromSource
  7:env:*EnvVar 8:resources:ResourceRequirements 24:restartPolicy:s 9:volumeMounts:*VolumeMount
  10:livenessProbe:Probe 11:readinessProbe:Probe 22:startupProbe:Probe 13:terminationMessagePath:s
  20:terminationMessagePolicy:s 14:imagePullPolicy:s 15:securityContext:SecurityContext 16:stdin:t 17:stdinOnce:t
  18:tty:t
ContainerPort 1:name:s 2:hostPort:i 3:containerPort:i 4:protocol:s 5:hostIP:s
CronJob 1:metadata:ObjectMeta 2:spec:CronJobSpec 3:status:-
CronJobSpec 1:schedule:s 8:timeZone:s 2:startingDeadlineSeconds:i 3:concurrencyPolicy:s 4:suspend:t
  5:jobTemplate:JobTemplateSpec 6:successfulJobsHistoryLimit:i 7:failedJobsHistoryLimit:i
DeleteOptions 1:gracePeriodSeconds:i 2:preconditions:Preconditions 3:orphanDependents:t 4:propagationPolicy:s
  5:dryRun:*s 6:ignoreStoreReadErrorWithClusterBreakingPotential:t
Deployment 1:metadata:ObjectMeta 2:spec:DeploymentSpec 3:status:-
DeploymentSpec 1:replicas:i 2:selector:LabelSelector 3:template:PodTemplateSpec 4:strategy:DeploymentStrategy
  5:minReadySeconds:i 6:revisionHistoryLimit:i 7:paused:t 9:progressDeadlineSeconds:i
DeploymentStrategy 1:type:s 2:rollingUpdate:RollingUpdateDeployment
DownwardAPIProjection 1:items:*DownwardAPIVolumeFile
DownwardAPIVolumeFile 1:path:s 2:fieldRef:ObjectFieldSelector 3:resourceFieldRef:ResourceFieldSelector 4:mode:i
  5:user:i
DownwardAPIVolumeSource 1:items:*DownwardAPIVolumeFile 2:defaultMode:i 3:defaultUser:i
EmptyDirVolumeSource 1:medium:s 2:sizeLimit:Q 3:mode:i
EnvFromSource 1:prefix:s 2:configMapRef:ConfigMapEnvSource 3:secretRef:SecretEnvSource
EnvVar 1:name:s 2:value:s 3:valueFrom:EnvVarSource
EnvVarSource 1:fieldRef:ObjectFieldSelector 2:resourceFieldRef:ResourceFieldSelector
  3:configMapKeyRef:ConfigMapKeySelector 4:secretKeyRef:SecretKeySelector
Event 1:metadata:ObjectMeta 2:involvedObject:ObjectReference 3:reason:s 4:message:s 5:source:EventSource
  6:firstTimestamp:T 7:lastTimestamp:T 8:count:i 9:type:s 10:eventTime:U 11:series:EventSeries 12:action:s
  13:related:ObjectReference 14:reportingComponent:s 15:reportingInstance:s
EventSeries 1:count:i 2:lastObservedTime:U
EventSource 1:component:s 2:host:s
EvictionResponder 1:name:s 2:priority:i
ExecAction 1:command:*s
GRPCAction 1:port:i 2:service:s 3:mode:s
HTTPGetAction 1:path:s 2:port:I 3:host:s 4:scheme:s 5:httpHeaders:*HTTPHeader 6:protocol:s
HTTPHeader 1:name:s 2:value:s
HTTPIngressPath 1:path:s 3:pathType:s 2:backend:IngressBackend
HTTPIngressRuleValue 1:paths:*HTTPIngressPath
HostPathVolumeSource 1:path:s 2:type:s
Ingress 1:metadata:ObjectMeta 2:spec:IngressSpec 3:status:-
IngressBackend 4:service:IngressServiceBackend 3:resource:TypedLocalObjectReference
IngressRule 1:host:s 2:ingressRuleValue:^IngressRuleValue
IngressRuleValue 1:http:HTTPIngressRuleValue
IngressServiceBackend 1:name:s 2:port:ServiceBackendPort
IngressSpec 4:ingressClassName:s 1:defaultBackend:IngressBackend 2:tls:*IngressTLS 3:rules:*IngressRule
IngressTLS 1:hosts:*s 2:secretName:s
Job 1:metadata:ObjectMeta 2:spec:JobSpec 3:status:-
JobSchedulingConfiguration 1:schedulingPolicy:WorkloadPodGroupSchedulingPolicy
  2:schedulingConstraints:WorkloadPodGroupSchedulingConstraints 3:disruptionMode:WorkloadPodGroupDisruptionMode
  4:resourceClaims:*WorkloadPodGroupResourceClaim
JobSpec 1:parallelism:i 2:completions:i 3:activeDeadlineSeconds:i 7:backoffLimit:i 12:backoffLimitPerIndex:i
  13:maxFailedIndexes:i 4:selector:LabelSelector 5:manualSelector:t 6:template:PodTemplateSpec
  8:ttlSecondsAfterFinished:i 9:completionMode:s 10:suspend:t 14:podReplacementPolicy:s 15:managedBy:s
  17:scheduling:JobSchedulingConfiguration
JobTemplateSpec 1:metadata:ObjectMeta 2:spec:JobSpec
KeyToPath 1:key:s 2:path:s 3:mode:i 4:user:i
LabelSelector 1:matchLabels:%s 2:matchExpressions:*LabelSelectorRequirement
LabelSelectorRequirement 1:key:s 2:operator:s 3:values:*s
Lease 1:metadata:ObjectMeta 2:spec:LeaseSpec
LeaseSpec 1:holderIdentity:s 2:leaseDurationSeconds:i 3:acquireTime:U 4:renewTime:U 5:leaseTransitions:i
  6:strategy:s 7:preferredHolder:s
LocalObjectReference 1:name:s
Namespace 1:metadata:ObjectMeta 2:spec:NamespaceSpec 3:status:-
NamespaceSpec 1:finalizers:*s
NewEvent 1:metadata:ObjectMeta 2:eventTime:U 3:series:EventSeries 4:reportingController:s 5:reportingInstance:s
  6:action:s 7:reason:s 8:regarding:ObjectReference 9:related:ObjectReference 10:note:s 11:type:s
  12:deprecatedSource:EventSource 13:deprecatedFirstTimestamp:T 14:deprecatedLastTimestamp:T 15:deprecatedCount:i
NodeAffinity 1:requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
  2:preferredDuringSchedulingIgnoredDuringExecution:*PreferredSchedulingTerm
NodeSelector 1:nodeSelectorTerms:*NodeSelectorTerm
NodeSelectorRequirement 1:key:s 2:operator:s 3:values:*s
NodeSelectorTerm 1:matchExpressions:*NodeSelectorRequirement 2:matchFields:*NodeSelectorRequirement
NonResourceAttributes 1:path:s 2:verb:s
ObjectFieldSelector 1:apiVersion:s 2:fieldPath:s
ObjectMeta 1:name:s 2:generateName:s 3:namespace:s 4:selfLink:s 5:uid:s 6:resourceVersion:s 7:generation:i
  8:creationTimestamp:T 9:deletionTimestamp:T 10:deletionGracePeriodSeconds:i 11:labels:%s 12:annotations:%s
  13:ownerReferences:*OwnerReference 14:finalizers:*s 17:managedFields:-
ObjectReference 1:kind:s 2:namespace:s 3:name:s 4:uid:s 5:apiVersion:s 6:resourceVersion:s 7:fieldPath:s
OwnerReference 5:apiVersion:s 1:kind:s 3:name:s 4:uid:s 6:controller:t 7:blockOwnerDeletion:t
PersistentVolumeClaimVolumeSource 1:claimName:s 2:readOnly:t
Pod 1:metadata:ObjectMeta 2:spec:PodSpec 3:status:-
PodAffinity 1:requiredDuringSchedulingIgnoredDuringExecution:*PodAffinityTerm
  2:preferredDuringSchedulingIgnoredDuringExecution:*WeightedPodAffinityTerm
PodAffinityTerm 1:labelSelector:LabelSelector 2:namespaces:*s 3:topologyKey:s 4:namespaceSelector:LabelSelector
  5:matchLabelKeys:*s 6:mismatchLabelKeys:*s
PodAntiAffinity 1:requiredDuringSchedulingIgnoredDuringExecution:*PodAffinityTerm
  2:preferredDuringSchedulingIgnoredDuringExecution:*WeightedPodAffinityTerm
PodDisruptionBudget 1:metadata:ObjectMeta 2:spec:PodDisruptionBudgetSpec 3:status:-
PodDisruptionBudgetSpec 1:minAvailable:I 2:selector:LabelSelector 3:maxUnavailable:I 4:unhealthyPodEvictionPolicy:s
PodOS 1:name:s
PodSecurityContext 2:runAsUser:i 6:runAsGroup:i 3:runAsNonRoot:t 4:supplementalGroups:*i
  12:supplementalGroupsPolicy:s 5:fsGroup:i 7:sysctls:*Sysctl 9:fsGroupChangePolicy:s 13:seLinuxChangePolicy:s
PodSpec 1:volumes:*Volume 20:initContainers:*Container 2:containers:*Container 3:restartPolicy:s
  4:terminationGracePeriodSeconds:i 5:activeDeadlineSeconds:i 6:dnsPolicy:s 7:nodeSelector:%s 8:serviceAccountName:s
  9:serviceAccount:s 21:automountServiceAccountToken:t 10:nodeName:s 11:hostNetwork:t 12:hostPID:t 13:hostIPC:t
  27:shareProcessNamespace:t 14:securityContext:PodSecurityContext 15:imagePullSecrets:*LocalObjectReference
  16:hostname:s 17:subdomain:s 18:affinity:Affinity 19:schedulerName:s 22:tolerations:*Toleration
  24:priorityClassName:s 25:priority:i 29:runtimeClassName:s 30:enableServiceLinks:t 31:preemptionPolicy:s
  32:overhead:%Q 35:setHostnameAsFQDN:t 36:os:PodOS 37:hostUsers:t 40:resources:ResourceRequirements
  41:hostnameOverride:s 44:evictionResponders:*EvictionResponder
PodTemplateSpec 1:metadata:ObjectMeta 2:spec:PodSpec
PolicyRule 1:verbs:*s 2:apiGroups:*s 3:resources:*s 4:resourceNames:*s 5:nonResourceURLs:*s
Preconditions 1:uid:s 2:resourceVersion:s
PreferredSchedulingTerm 1:weight:i 2:preference:NodeSelectorTerm
PriorityClass 1:metadata:ObjectMeta 2:value:i 3:globalDefault:t 4:description:s 5:preemptionPolicy:s
Probe 1:handler:^ProbeHandler 2:initialDelaySeconds:i 3:timeoutSeconds:i 4:periodSeconds:i 5:successThreshold:i
  6:failureThreshold:i 7:terminationGracePeriodSeconds:i
ProbeHandler 1:exec:ExecAction 2:httpGet:HTTPGetAction 3:tcpSocket:TCPSocketAction 4:grpc:GRPCAction
ProjectedVolumeSource 1:sources:*VolumeProjection 2:defaultMode:i 3:defaultUser:i
ResourceAttributes 1:namespace:s 2:verb:s 3:group:s 4:version:s 5:resource:s 6:subresource:s 7:name:s
ResourceFieldSelector 1:containerName:s 2:resource:s 3:divisor:Q
ResourceQuota 1:metadata:ObjectMeta 2:spec:ResourceQuotaSpec 3:status:-
ResourceQuotaSpec 1:hard:%Q 2:scopes:*s
ResourceRequirements 1:limits:%Q 2:requests:%Q
Role 1:metadata:ObjectMeta 2:rules:*PolicyRule
RoleBinding 1:metadata:ObjectMeta 2:subjects:*Subject 3:roleRef:RoleRef
RoleRef 1:apiGroup:s 2:kind:s 3:name:s
RollingUpdateDeployment 1:maxUnavailable:I 2:maxSurge:I
Secret 1:metadata:ObjectMeta 5:immutable:t 2:data:%b 4:stringData:%s 3:type:s
SecretEnvSource 1:localObjectReference:^LocalObjectReference 2:optional:t
SecretKeySelector 1:localObjectReference:^LocalObjectReference 2:key:s 3:optional:t
SecretProjection 1:localObjectReference:^LocalObjectReference 2:items:*KeyToPath 4:optional:t
SecretVolumeSource 1:secretName:s 2:items:*KeyToPath 3:defaultMode:i 4:optional:t 5:defaultUser:i
SecurityContext 1:capabilities:Capabilities 2:privileged:t 4:runAsUser:i 8:runAsGroup:i 5:runAsNonRoot:t
  6:readOnlyRootFilesystem:t 7:allowPrivilegeEscalation:t 9:procMount:s
SelfSubjectReview 1:metadata:ObjectMeta 2:status:-
SelfSubjectRulesReview 1:metadata:ObjectMeta 2:spec:SelfSubjectRulesReviewSpec 3:status:-
SelfSubjectRulesReviewSpec 1:namespace:s
TokenRequest 1:metadata:ObjectMeta 2:spec:TokenRequestSpec 3:status:-
TokenRequestSpec 1:audiences:*s 3:boundObjectRef:BoundObjectReference 4:expirationSeconds:i
BoundObjectReference 1:kind:s 2:apiVersion:s 3:name:s 4:uid:s
SelfSubjectAccessReview 1:metadata:ObjectMeta 2:spec:SelfSubjectAccessReviewSpec 3:status:-
SelfSubjectAccessReviewSpec 1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:NonResourceAttributes
Service 1:metadata:ObjectMeta 2:spec:ServiceSpec 3:status:-
ServiceAccount 1:metadata:ObjectMeta 2:secrets:*ObjectReference 3:imagePullSecrets:*LocalObjectReference
  4:automountServiceAccountToken:t
ServiceBackendPort 1:name:s 2:number:i
ServicePort 1:name:s 2:protocol:s 6:appProtocol:s 3:port:i 4:targetPort:I 5:nodePort:i
ServiceSpec 1:ports:*ServicePort 2:selector:%s 3:clusterIP:s 18:clusterIPs:*s 4:type:s 5:externalIPs:*s
  7:sessionAffinity:s 8:loadBalancerIP:s 9:loadBalancerSourceRanges:*s 10:externalName:s 11:externalTrafficPolicy:s
  12:healthCheckNodePort:i 13:publishNotReadyAddresses:t 19:ipFamilies:*s 17:ipFamilyPolicy:s
  20:allocateLoadBalancerNodePorts:t 21:loadBalancerClass:s 22:internalTrafficPolicy:s 23:trafficDistribution:s
Subject 1:kind:s 2:apiGroup:s 3:name:s 4:namespace:s
Sysctl 1:name:s 2:value:s
TCPSocketAction 1:port:I 2:host:s
Toleration 1:key:s 2:operator:s 3:value:s 4:effect:s 5:tolerationSeconds:i
TypedLocalObjectReference 1:apiGroup:s 2:kind:s 3:name:s
Volume 1:name:s 2:volumeSource:^VolumeSource
VolumeMount 1:name:s 2:readOnly:t 7:recursiveReadOnly:s 3:mountPath:s 4:subPath:s 5:mountPropagation:s
  6:subPathExpr:s 8:bindMountOptions:*s
VolumeProjection 1:secret:SecretProjection 2:downwardAPI:DownwardAPIProjection 3:configMap:ConfigMapProjection
VolumeSource 1:hostPath:HostPathVolumeSource 2:emptyDir:EmptyDirVolumeSource 6:secret:SecretVolumeSource
  10:persistentVolumeClaim:PersistentVolumeClaimVolumeSource 16:downwardAPI:DownwardAPIVolumeSource
  19:configMap:ConfigMapVolumeSource 26:projected:ProjectedVolumeSource
WeightedPodAffinityTerm 1:weight:i 2:podAffinityTerm:PodAffinityTerm
"""
