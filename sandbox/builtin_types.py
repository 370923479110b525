"""The types of the built-in kinds, as far as the sandbox looks at them: fields, their types, how lists merge.

Taken from the published OpenAPI documents of Kubernetes 1.37. Types are separated by `;`, each with its fields as
`name:type`: `s` text, `b` bytes, `i` integer, `d` number, `t` boolean, `T` time, `U` time with microseconds, `x`
integer or text, `q` quantity, `?` anything, else a type of this table. Before the type of the items `*` is an
atomic list, `=` a set, `[a,b]` a list of maps with these keys; `%` is a map from text, `&` an atomic one. A type
whose name ends in `&` is atomic. After the type `!` is a field that Go always has (a value, no pointer), `~` one that
it always writes (null when unset), `=value` a default. `/version/Kind Name` is a kind whose type has another name.
"""

from typing import Final

TYPES: Final = """
/events.k8s.io/v1/Event EventsV1Event; /autoscaling/v1/HorizontalPodAutoscaler AutoscalingV1HorizontalPodAutoscaler;
APIService metadata:ObjectMeta! spec:APIServiceSpec! status:APIServiceStatus!; APIServiceCondition
lastTransitionTime:T message:s reason:s status:s! type:s!; APIServiceSpec caBundle:b group:s groupPriorityMinimum:i!
insecureSkipTLSVerify:t service:ServiceReference version:s versionPriority:i!; APIServiceStatus
conditions:[type]APIServiceCondition; AWSElasticBlockStoreVolumeSource fsType:s partition:i readOnly:t volumeID:s!;
AdmissionregistrationV1ServiceReference name:s! namespace:s! path:s port:i; Affinity nodeAffinity:NodeAffinity
podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity; AggregationRule clusterRoleSelectors:*LabelSelector;
ApiextensionsV1ServiceReference name:s! namespace:s! path:s port:i; ApiextensionsV1WebhookClientConfig caBundle:b
service:ApiextensionsV1ServiceReference url:s; AppArmorProfile localhostProfile:s type:s!; AttachedVolume
devicePath:s! name:s!; AutoscalingV1CrossVersionObjectReference& apiVersion:s kind:s! name:s!;
AutoscalingV1HorizontalPodAutoscaler metadata:ObjectMeta! spec:AutoscalingV1HorizontalPodAutoscalerSpec!
status:AutoscalingV1HorizontalPodAutoscalerStatus!; AutoscalingV1HorizontalPodAutoscalerSpec maxReplicas:i!
minReplicas:i scaleTargetRef:AutoscalingV1CrossVersionObjectReference! targetCPUUtilizationPercentage:i;
AutoscalingV1HorizontalPodAutoscalerStatus currentCPUUtilizationPercentage:i currentReplicas:i! desiredReplicas:i!
lastScaleTime:T observedGeneration:i; AzureDiskVolumeSource cachingMode:s=ReadWrite diskName:s! diskURI:s!
fsType:s=ext4 kind:s=Shared readOnly:t!; AzureFilePersistentVolumeSource readOnly:t secretName:s! secretNamespace:s
shareName:s!; AzureFileVolumeSource readOnly:t secretName:s! shareName:s!; CSIPersistentVolumeSource
controllerExpandSecretRef:SecretReference controllerPublishSecretRef:SecretReference driver:s! fsType:s
nodeExpandSecretRef:SecretReference nodePublishSecretRef:SecretReference nodeStageSecretRef:SecretReference readOnly:t
volumeAttributes:%s volumeHandle:s!; CSIVolumeSource driver:s! fsType:s nodePublishSecretRef:LocalObjectReference
readOnly:t volumeAttributes:%s; Capabilities add:*s drop:*s; CephFSPersistentVolumeSource monitors:*s~ path:s
readOnly:t secretFile:s secretRef:SecretReference user:s; CephFSVolumeSource monitors:*s~ path:s readOnly:t
secretFile:s secretRef:LocalObjectReference user:s; CinderPersistentVolumeSource fsType:s readOnly:t
secretRef:SecretReference volumeID:s!; CinderVolumeSource fsType:s readOnly:t secretRef:LocalObjectReference
volumeID:s!; ClientIPConfig timeoutSeconds:i; ClusterRole aggregationRule:AggregationRule metadata:ObjectMeta!
rules:*PolicyRule; ClusterRoleBinding metadata:ObjectMeta! roleRef:RoleRef! subjects:*Subject;
ClusterTrustBundleProjection labelSelector:LabelSelector name:s optional:t path:s! signerName:s user:i; Condition
lastTransitionTime:T~ message:s! observedGeneration:i reason:s! status:s! type:s!; ConfigMap binaryData:%b data:%s
immutable:t metadata:ObjectMeta!; ConfigMapEnvSource name:s! optional:t; ConfigMapKeySelector& key:s! name:s!
optional:t; ConfigMapNodeConfigSource kubeletConfigKey:s! name:s! namespace:s! resourceVersion:s uid:s;
ConfigMapProjection items:*KeyToPath name:s! optional:t; ConfigMapVolumeSource defaultMode:i defaultUser:i
items:*KeyToPath name:s! optional:t; Container args:*s command:*s env:[name]EnvVar envFrom:*EnvFromSource image:s
imagePullPolicy:s lifecycle:Lifecycle livenessProbe:Probe name:s! ports:[containerPort,protocol]ContainerPort
readinessProbe:Probe resizePolicy:*ContainerResizePolicy resources:ResourceRequirements! restartPolicy:s
restartPolicyRules:*ContainerRestartRule securityContext:SecurityContext startupProbe:Probe stdin:t stdinOnce:t
terminationMessagePath:s terminationMessagePolicy:s tty:t volumeDevices:[devicePath]VolumeDevice
volumeMounts:[mountPath]VolumeMount workingDir:s; ContainerExtendedResourceRequest containerName:s! requestName:s!
resourceName:s!; ContainerImage names:*s sizeBytes:i; ContainerPort containerPort:i! hostIP:s hostPort:i name:s
protocol:s=TCP; ContainerResizePolicy resourceName:s! restartPolicy:s!; ContainerResourceMetricSource container:s!
name:s! target:MetricTarget!; ContainerResourceMetricStatus container:s! current:MetricValueStatus! name:s!;
ContainerRestartRule action:s~ exitCodes:ContainerRestartRuleOnExitCodes; ContainerRestartRuleOnExitCodes operator:s~
values:=i; ContainerState running:ContainerStateRunning terminated:ContainerStateTerminated
waiting:ContainerStateWaiting; ContainerStateRunning startedAt:T; ContainerStateTerminated containerID:s exitCode:i!
finishedAt:T message:s reason:s signal:i startedAt:T; ContainerStateWaiting message:s reason:s; ContainerStatus
allocatedResources:%q allocatedResourcesStatus:[name]ResourceStatus containerID:s image:s! imageID:s!
lastState:ContainerState! name:s! ready:t! resources:ResourceRequirements restartCount:i! started:t
state:ContainerState! stopSignal:s user:ContainerUser volumeMounts:[mountPath]VolumeMountStatus; ContainerUser
linux:LinuxContainerUser; ControllerRevision data:?~ metadata:ObjectMeta! revision:i!; CoreV1EndpointPort&
appProtocol:s name:s port:i! protocol:s; CronJob metadata:ObjectMeta! spec:CronJobSpec! status:CronJobStatus!;
CronJobSpec concurrencyPolicy:s failedJobsHistoryLimit:i jobTemplate:JobTemplateSpec! schedule:s!
startingDeadlineSeconds:i successfulJobsHistoryLimit:i suspend:t timeZone:s; CronJobStatus active:*ObjectReference
lastScheduleTime:T lastSuccessfulTime:T; CrossVersionObjectReference apiVersion:s kind:s! name:s!;
CustomResourceColumnDefinition description:s format:s jsonPath:s! name:s! priority:i type:s!; CustomResourceConversion
strategy:s! webhook:WebhookConversion; CustomResourceDefinition metadata:ObjectMeta!
spec:CustomResourceDefinitionSpec! status:CustomResourceDefinitionStatus!; CustomResourceDefinitionCondition
lastTransitionTime:T message:s observedGeneration:i reason:s status:s! type:s!; CustomResourceDefinitionNames
categories:*s kind:s! listKind:s plural:s! shortNames:*s singular:s; CustomResourceDefinitionSpec
conversion:CustomResourceConversion group:s! names:CustomResourceDefinitionNames! preserveUnknownFields:t scope:s!
versions:*CustomResourceDefinitionVersion~; CustomResourceDefinitionStatus
acceptedNames:CustomResourceDefinitionNames! conditions:[type]CustomResourceDefinitionCondition observedGeneration:i
storedVersions:*s; CustomResourceDefinitionVersion additionalPrinterColumns:*CustomResourceColumnDefinition
deprecated:t deprecationWarning:s name:s! schema:CustomResourceValidation selectableFields:*SelectableField served:t!
storage:t! subresources:CustomResourceSubresources; CustomResourceSubresourceScale labelSelectorPath:s
specReplicasPath:s! statusReplicasPath:s!; CustomResourceSubresourceStatus; CustomResourceSubresources
scale:CustomResourceSubresourceScale status:CustomResourceSubresourceStatus; CustomResourceValidation
openAPIV3Schema:?; DaemonEndpoint Port:i!; DaemonSet metadata:ObjectMeta! spec:DaemonSetSpec! status:DaemonSetStatus!;
DaemonSetCondition lastTransitionTime:T message:s reason:s status:s! type:s!; DaemonSetSpec minReadySeconds:i
revisionHistoryLimit:i selector:LabelSelector~ template:PodTemplateSpec! updateStrategy:DaemonSetUpdateStrategy!;
DaemonSetStatus collisionCount:i conditions:[type]DaemonSetCondition currentNumberScheduled:i!
desiredNumberScheduled:i! numberAvailable:i numberMisscheduled:i! numberReady:i! numberUnavailable:i
observedGeneration:i updatedNumberScheduled:i; DaemonSetUpdateStrategy rollingUpdate:RollingUpdateDaemonSet type:s;
Deployment metadata:ObjectMeta! spec:DeploymentSpec! status:DeploymentStatus!; DeploymentCondition
lastTransitionTime:T lastUpdateTime:T message:s reason:s status:s! type:s!; DeploymentSpec minReadySeconds:i paused:t
progressDeadlineSeconds:i replicas:i revisionHistoryLimit:i selector:LabelSelector~ strategy:DeploymentStrategy!
template:PodTemplateSpec!; DeploymentStatus availableReplicas:i collisionCount:i conditions:[type]DeploymentCondition
observedGeneration:i readyReplicas:i replicas:i terminatingReplicas:i unavailableReplicas:i updatedReplicas:i;
DeploymentStrategy rollingUpdate:RollingUpdateDeployment type:s; DownwardAPIProjection items:*DownwardAPIVolumeFile;
DownwardAPIVolumeFile fieldRef:ObjectFieldSelector mode:i path:s! resourceFieldRef:ResourceFieldSelector user:i;
DownwardAPIVolumeSource defaultMode:i defaultUser:i items:*DownwardAPIVolumeFile; EmptyDirVolumeSource medium:s mode:i
sizeLimit:q; Endpoint addresses:=s~ conditions:EndpointConditions! deprecatedTopology:%s hints:EndpointHints
hostname:s nodeName:s targetRef:ObjectReference zone:s; EndpointAddress& hostname:s ip:s! nodeName:s
targetRef:ObjectReference; EndpointConditions ready:t serving:t terminating:t; EndpointHints forNodes:*ForNode
forZones:*ForZone; EndpointPort& appProtocol:s name:s port:i protocol:s; EndpointSlice addressType:s!
endpoints:*Endpoint metadata:ObjectMeta! ports:*EndpointPort; EndpointSubset addresses:*EndpointAddress
notReadyAddresses:*EndpointAddress ports:*CoreV1EndpointPort; Endpoints metadata:ObjectMeta! subsets:*EndpointSubset;
EnvFromSource configMapRef:ConfigMapEnvSource prefix:s secretRef:SecretEnvSource; EnvVar name:s! value:s
valueFrom:EnvVarSource; EnvVarSource configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector
fileKeyRef:FileKeySelector resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector; EphemeralContainer
args:*s command:*s env:[name]EnvVar envFrom:*EnvFromSource image:s imagePullPolicy:s lifecycle:Lifecycle
livenessProbe:Probe name:s! ports:[containerPort,protocol]ContainerPort readinessProbe:Probe
resizePolicy:*ContainerResizePolicy resources:ResourceRequirements! restartPolicy:s
restartPolicyRules:*ContainerRestartRule securityContext:SecurityContext startupProbe:Probe stdin:t stdinOnce:t
targetContainerName:s terminationMessagePath:s terminationMessagePolicy:s tty:t volumeDevices:[devicePath]VolumeDevice
volumeMounts:[mountPath]VolumeMount workingDir:s; EphemeralVolumeSource
volumeClaimTemplate:PersistentVolumeClaimTemplate; Event action:s count:i eventTime:U firstTimestamp:T
involvedObject:ObjectReference! lastTimestamp:T message:s metadata:ObjectMeta! reason:s related:ObjectReference
reportingComponent:s! reportingInstance:s! series:EventSeries source:EventSource! type:s; EventSeries count:i
lastObservedTime:U; EventSource component:s host:s; EventsV1Event action:s deprecatedCount:i
deprecatedFirstTimestamp:T deprecatedLastTimestamp:T deprecatedSource:EventSource! eventTime:U~ metadata:ObjectMeta!
note:s reason:s regarding:ObjectReference! related:ObjectReference reportingController:s reportingInstance:s
series:EventsV1EventSeries type:s; EventsV1EventSeries count:i! lastObservedTime:U~; EvictionResponder& name:s!
priority:i~; ExecAction command:*s; ExternalMetricSource metric:MetricIdentifier! target:MetricTarget!;
ExternalMetricStatus current:MetricValueStatus! metric:MetricIdentifier!; FCVolumeSource fsType:s lun:i readOnly:t
targetWWNs:*s wwids:*s; FileKeySelector& key:s! optional:t! path:s! volumeName:s!; FlexPersistentVolumeSource
driver:s! fsType:s options:%s readOnly:t secretRef:SecretReference; FlexVolumeSource driver:s! fsType:s options:%s
readOnly:t secretRef:LocalObjectReference; FlockerVolumeSource datasetName:s datasetUUID:s; ForNode name:s!; ForZone
name:s!; GCEPersistentDiskVolumeSource fsType:s partition:i pdName:s! readOnly:t; GRPCAction mode:s port:i!
service:s!; GitRepoVolumeSource directory:s repository:s! revision:s; GlusterfsPersistentVolumeSource endpoints:s!
endpointsNamespace:s path:s! readOnly:t; GlusterfsVolumeSource endpoints:s! path:s! readOnly:t; HPAScalingPolicy
periodSeconds:i! type:s! value:i!; HPAScalingRules policies:*HPAScalingPolicy selectPolicy:s
stabilizationWindowSeconds:i tolerance:q; HTTPGetAction host:s httpHeaders:*HTTPHeader path:s port:x~ protocol:s
scheme:s; HTTPHeader name:s! value:s!; HTTPIngressPath backend:IngressBackend! path:s pathType:s~;
HTTPIngressRuleValue paths:*HTTPIngressPath~; HorizontalPodAutoscaler metadata:ObjectMeta!
spec:HorizontalPodAutoscalerSpec! status:HorizontalPodAutoscalerStatus!; HorizontalPodAutoscalerBehavior
scaleDown:HPAScalingRules scaleUp:HPAScalingRules; HorizontalPodAutoscalerCondition lastTransitionTime:T message:s
observedGeneration:i reason:s status:s! type:s!; HorizontalPodAutoscalerSpec behavior:HorizontalPodAutoscalerBehavior
maxReplicas:i! metrics:*MetricSpec minReplicas:i scaleTargetRef:CrossVersionObjectReference!;
HorizontalPodAutoscalerStatus conditions:[type]HorizontalPodAutoscalerCondition currentMetrics:*MetricStatus
currentReplicas:i desiredReplicas:i! lastScaleTime:T observedGeneration:i; HostAlias hostnames:*s ip:s!; HostIP ip:s!;
HostPathVolumeSource path:s! type:s; IPBlock cidr:s! except:*s; ISCSIPersistentVolumeSource chapAuthDiscovery:t
chapAuthSession:t fsType:s initiatorName:s iqn:s! iscsiInterface:s=default lun:i! portals:*s readOnly:t
secretRef:SecretReference targetPortal:s!; ISCSIVolumeSource chapAuthDiscovery:t chapAuthSession:t fsType:s
initiatorName:s iqn:s! iscsiInterface:s=default lun:i! portals:*s readOnly:t secretRef:LocalObjectReference
targetPortal:s!; ImageVolumeSource pullPolicy:s reference:s; ImageVolumeStatus imageRef:s~; Ingress
metadata:ObjectMeta! spec:IngressSpec! status:IngressStatus!; IngressBackend resource:TypedLocalObjectReference
service:IngressServiceBackend; IngressClass metadata:ObjectMeta! spec:IngressClassSpec!;
IngressClassParametersReference apiGroup:s kind:s! name:s! namespace:s scope:s; IngressClassSpec controller:s
parameters:IngressClassParametersReference; IngressLoadBalancerIngress hostname:s ip:s ports:*IngressPortStatus;
IngressLoadBalancerStatus ingress:*IngressLoadBalancerIngress; IngressPortStatus error:s port:i! protocol:s!;
IngressRule host:s http:HTTPIngressRuleValue; IngressServiceBackend name:s! port:ServiceBackendPort!; IngressSpec
defaultBackend:IngressBackend ingressClassName:s rules:*IngressRule tls:*IngressTLS; IngressStatus
loadBalancer:IngressLoadBalancerStatus!; IngressTLS hosts:*s secretName:s; Job metadata:ObjectMeta! spec:JobSpec!
status:JobStatus!; JobCondition lastProbeTime:T lastTransitionTime:T message:s reason:s status:s! type:s!;
JobSchedulingConfiguration disruptionMode:WorkloadPodGroupDisruptionMode
resourceClaims:[name]WorkloadPodGroupResourceClaim schedulingConstraints:WorkloadPodGroupSchedulingConstraints
schedulingPolicy:WorkloadPodGroupSchedulingPolicy; JobSpec activeDeadlineSeconds:i backoffLimit:i
backoffLimitPerIndex:i completionMode:s completions:i managedBy:s manualSelector:t maxFailedIndexes:i parallelism:i
podFailurePolicy:PodFailurePolicy podReplacementPolicy:s scheduling:JobSchedulingConfiguration selector:LabelSelector
successPolicy:SuccessPolicy suspend:t template:PodTemplateSpec! ttlSecondsAfterFinished:i; JobStatus active:i
completedIndexes:s completionTime:T conditions:*JobCondition failed:i failedIndexes:s ready:i startTime:T succeeded:i
terminating:i uncountedTerminatedPods:UncountedTerminatedPods; JobTemplateSpec metadata:ObjectMeta! spec:JobSpec!;
KeyToPath key:s! mode:i path:s! user:i; LabelSelector& matchExpressions:*LabelSelectorRequirement matchLabels:%s;
LabelSelectorRequirement key:s! operator:s! values:*s; Lease metadata:ObjectMeta! spec:LeaseSpec!; LeaseSpec
acquireTime:U holderIdentity:s leaseDurationSeconds:i leaseTransitions:i preferredHolder:s renewTime:U strategy:s;
Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler stopSignal:s; LifecycleHandler exec:ExecAction
httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction; LimitRange metadata:ObjectMeta!
spec:LimitRangeSpec!; LimitRangeItem default:%q defaultRequest:%q max:%q maxLimitRequestRatio:%q min:%q type:s!;
LimitRangeSpec limits:*LimitRangeItem~; LinuxContainerUser gid:i! supplementalGroups:*i uid:i!; LoadBalancerIngress
hostname:s ip:s ipMode:s ports:*PortStatus; LoadBalancerStatus ingress:*LoadBalancerIngress; LocalObjectReference&
name:s!; LocalVolumeSource fsType:s path:s!; ManagedFieldsEntry apiVersion:s fieldsType:s fieldsV1:? manager:s
operation:s subresource:s time:T; MatchCondition expression:s! name:s!; MetricIdentifier name:s!
selector:LabelSelector; MetricSpec containerResource:ContainerResourceMetricSource external:ExternalMetricSource
object:ObjectMetricSource pods:PodsMetricSource resource:ResourceMetricSource type:s!; MetricStatus
containerResource:ContainerResourceMetricStatus external:ExternalMetricStatus object:ObjectMetricStatus
pods:PodsMetricStatus resource:ResourceMetricStatus type:s!; MetricTarget averageUtilization:i averageValue:q type:s!
value:q; MetricValueStatus averageUtilization:i averageValue:q value:q; ModifyVolumeStatus status:s!
targetVolumeAttributesClassName:s; MutatingWebhook admissionReviewVersions:*s~ clientConfig:WebhookClientConfig!
failurePolicy:s matchConditions:[name]MatchCondition matchPolicy:s name:s! namespaceSelector:LabelSelector
objectSelector:LabelSelector reinvocationPolicy:s rules:*RuleWithOperations sideEffects:s~ timeoutSeconds:i;
MutatingWebhookConfiguration metadata:ObjectMeta! webhooks:[name]MutatingWebhook; NFSVolumeSource path:s! readOnly:t
server:s!; Namespace metadata:ObjectMeta! spec:NamespaceSpec! status:NamespaceStatus!; NamespaceCondition
lastTransitionTime:T message:s reason:s status:s! type:s!; NamespaceSpec finalizers:*s; NamespaceStatus
conditions:[type]NamespaceCondition phase:s; NetworkPolicy metadata:ObjectMeta! spec:NetworkPolicySpec!;
NetworkPolicyEgressRule ports:*NetworkPolicyPort to:*NetworkPolicyPeer; NetworkPolicyIngressRule
from:*NetworkPolicyPeer ports:*NetworkPolicyPort; NetworkPolicyPeer ipBlock:IPBlock namespaceSelector:LabelSelector
podSelector:LabelSelector; NetworkPolicyPort endPort:i port:x protocol:s; NetworkPolicySpec
egress:*NetworkPolicyEgressRule ingress:*NetworkPolicyIngressRule podSelector:LabelSelector! policyTypes:*s; Node
metadata:ObjectMeta! spec:NodeSpec! status:NodeStatus!; NodeAddress address:s! type:s!; NodeAffinity
preferredDuringSchedulingIgnoredDuringExecution:*PreferredSchedulingTerm
requiredDuringSchedulingIgnoredDuringExecution:NodeSelector; NodeAllocatableMappedResources name:s! quantity:q~;
NodeAllocatableOverheadResources name:s! perContainer:q perPod:q; NodeAllocatableResourceClaimStatus containers:=s
mapping:[name]NodeAllocatableMappedResources overhead:[name]NodeAllocatableOverheadResources resourceClaimName:s!;
NodeCondition lastHeartbeatTime:T lastTransitionTime:T message:s reason:s status:s! type:s!; NodeConfigSource
configMap:ConfigMapNodeConfigSource; NodeConfigStatus active:NodeConfigSource assigned:NodeConfigSource error:s
lastKnownGood:NodeConfigSource; NodeDaemonEndpoints kubeletEndpoint:DaemonEndpoint!; NodeFeatures
supplementalGroupsPolicy:t; NodePodPreemptionPolicy disableResizePreemption:=s; NodeRuntimeHandler
features:NodeRuntimeHandlerFeatures name:s!; NodeRuntimeHandlerFeatures recursiveReadOnlyMounts:t userNamespaces:t;
NodeSelector& nodeSelectorTerms:*NodeSelectorTerm~; NodeSelectorRequirement key:s! operator:s! values:*s;
NodeSelectorTerm& matchExpressions:*NodeSelectorRequirement matchFields:*NodeSelectorRequirement; NodeSpec
configSource:NodeConfigSource externalID:s podCIDR:s podCIDRs:=s podPreemptionPolicy:NodePodPreemptionPolicy
providerID:s taints:*Taint unschedulable:t; NodeStatus addresses:[type]NodeAddress allocatable:%q capacity:%q
conditions:[type]NodeCondition config:NodeConfigStatus daemonEndpoints:NodeDaemonEndpoints! declaredFeatures:*s
features:NodeFeatures images:*ContainerImage nodeInfo:NodeSystemInfo! phase:s runtimeHandlers:*NodeRuntimeHandler
volumesAttached:*AttachedVolume volumesInUse:*s; NodeSwapStatus capacity:i; NodeSystemInfo architecture:s! bootID:s!
containerRuntimeVersion:s! kernelVersion:s! kubeProxyVersion:s! kubeletVersion:s! machineID:s! operatingSystem:s!
osImage:s! runningInUserNamespace:t swap:NodeSwapStatus systemUUID:s!; ObjectFieldSelector& apiVersion:s fieldPath:s!;
ObjectMeta annotations:%s creationTimestamp:T deletionGracePeriodSeconds:i deletionTimestamp:T finalizers:=s
generateName:s generation:i labels:%s managedFields:*ManagedFieldsEntry name:s namespace:s
ownerReferences:[uid]OwnerReference resourceVersion:s selfLink:s uid:s; ObjectMetricSource
describedObject:CrossVersionObjectReference! metric:MetricIdentifier! target:MetricTarget!; ObjectMetricStatus
current:MetricValueStatus! describedObject:CrossVersionObjectReference! metric:MetricIdentifier!; ObjectReference&
apiVersion:s fieldPath:s kind:s name:s namespace:s resourceVersion:s uid:s; OwnerReference& apiVersion:s!
blockOwnerDeletion:t controller:t kind:s! name:s! uid:s!; PersistentVolume metadata:ObjectMeta!
spec:PersistentVolumeSpec! status:PersistentVolumeStatus!; PersistentVolumeClaim metadata:ObjectMeta!
spec:PersistentVolumeClaimSpec! status:PersistentVolumeClaimStatus!; PersistentVolumeClaimCondition lastProbeTime:T
lastTransitionTime:T message:s reason:s status:s! type:s!; PersistentVolumeClaimSpec accessModes:*s
dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference resources:VolumeResourceRequirements!
selector:LabelSelector storageClassName:s volumeAttributesClassName:s volumeMode:s volumeName:s;
PersistentVolumeClaimStatus accessModes:*s allocatedResourceStatuses:%s allocatedResources:%q capacity:%q
conditions:[type]PersistentVolumeClaimCondition currentVolumeAttributesClassName:s healthStatus:VolumeHealthStatus
modifyVolumeStatus:ModifyVolumeStatus phase:s; PersistentVolumeClaimTemplate metadata:ObjectMeta!
spec:PersistentVolumeClaimSpec!; PersistentVolumeClaimVolumeSource claimName:s! readOnly:t; PersistentVolumeSpec
accessModes:*s awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
azureFile:AzureFilePersistentVolumeSource capacity:%q cephfs:CephFSPersistentVolumeSource
cinder:CinderPersistentVolumeSource claimRef:ObjectReference csi:CSIPersistentVolumeSource fc:FCVolumeSource
flexVolume:FlexPersistentVolumeSource flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource
glusterfs:GlusterfsPersistentVolumeSource hostPath:HostPathVolumeSource iscsi:ISCSIPersistentVolumeSource
local:LocalVolumeSource mountOptions:*s nfs:NFSVolumeSource nodeAffinity:VolumeNodeAffinity
persistentVolumeReclaimPolicy:s photonPersistentDisk:PhotonPersistentDiskVolumeSource
portworxVolume:PortworxVolumeSource quobyte:QuobyteVolumeSource rbd:RBDPersistentVolumeSource
scaleIO:ScaleIOPersistentVolumeSource storageClassName:s storageos:StorageOSPersistentVolumeSource
volumeAttributesClassName:s volumeMode:s vsphereVolume:VsphereVirtualDiskVolumeSource; PersistentVolumeStatus
lastPhaseTransitionTime:T message:s phase:s reason:s; PhotonPersistentDiskVolumeSource fsType:s pdID:s!; Pod
metadata:ObjectMeta! spec:PodSpec! status:PodStatus!; PodAffinity
preferredDuringSchedulingIgnoredDuringExecution:*WeightedPodAffinityTerm
requiredDuringSchedulingIgnoredDuringExecution:*PodAffinityTerm; PodAffinityTerm labelSelector:LabelSelector
matchLabelKeys:*s mismatchLabelKeys:*s namespaceSelector:LabelSelector namespaces:*s topologyKey:s!; PodAntiAffinity
preferredDuringSchedulingIgnoredDuringExecution:*WeightedPodAffinityTerm
requiredDuringSchedulingIgnoredDuringExecution:*PodAffinityTerm; PodCertificateProjection certificateChainPath:s
credentialBundlePath:s keyPath:s keyType:s~ maxExpirationSeconds:i signerName:s~ user:i userAnnotations:%s;
PodCondition lastProbeTime:T lastTransitionTime:T message:s observedGeneration:i reason:s status:s! type:s!;
PodDNSConfig nameservers:*s options:*PodDNSConfigOption searches:*s; PodDNSConfigOption name:s value:s;
PodDisruptionBudget metadata:ObjectMeta! spec:PodDisruptionBudgetSpec! status:PodDisruptionBudgetStatus!;
PodDisruptionBudgetSpec maxUnavailable:x minAvailable:x selector:LabelSelector unhealthyPodEvictionPolicy:s;
PodDisruptionBudgetStatus conditions:[type]Condition currentHealthy:i! desiredHealthy:i! disruptedPods:%T
disruptionsAllowed:i! expectedPods:i! observedGeneration:i; PodExtendedResourceClaimStatus
requestMappings:*ContainerExtendedResourceRequest~ resourceClaimName:s!; PodFailurePolicy
rules:*PodFailurePolicyRule~; PodFailurePolicyOnExitCodesRequirement containerName:s operator:s! values:=i~;
PodFailurePolicyOnPodConditionsPattern status:s! type:s!; PodFailurePolicyRule action:s!
onExitCodes:PodFailurePolicyOnExitCodesRequirement onPodConditions:*PodFailurePolicyOnPodConditionsPattern; PodIP
ip:s!; PodOS name:s!; PodReadinessGate conditionType:s!; PodResourceClaim name:s! resourceClaimName:s
resourceClaimTemplateName:s; PodResourceClaimStatus name:s! resourceClaimName:s; PodSchedulingGate name:s!;
PodSchedulingGroup podGroupName:s; PodSecurityContext appArmorProfile:AppArmorProfile fsGroup:i fsGroupChangePolicy:s
runAsGroup:i runAsNonRoot:t runAsUser:i seLinuxChangePolicy:s seLinuxOptions:SELinuxOptions
seccompProfile:SeccompProfile supplementalGroups:*i supplementalGroupsPolicy:s sysctls:*Sysctl
windowsOptions:WindowsSecurityContextOptions; PodSpec activeDeadlineSeconds:i affinity:Affinity
automountServiceAccountToken:t containers:[name]Container~ dnsConfig:PodDNSConfig dnsPolicy:s enableServiceLinks:t
ephemeralContainers:[name]EphemeralContainer evictionResponders:[name]EvictionResponder hostAliases:[ip]HostAlias
hostIPC:t hostNetwork:t hostPID:t hostUsers:t hostname:s hostnameOverride:s
imagePullSecrets:[name]LocalObjectReference initContainers:[name]Container nodeName:s nodeSelector:&s os:PodOS
overhead:%q preemptionPolicy:s priority:i priorityClassName:s readinessGates:*PodReadinessGate
resourceClaims:[name]PodResourceClaim resources:ResourceRequirements restartPolicy:s runtimeClassName:s
schedulerName:s schedulingGates:[name]PodSchedulingGate schedulingGroup:PodSchedulingGroup
securityContext:PodSecurityContext serviceAccount:s serviceAccountName:s setHostnameAsFQDN:t shareProcessNamespace:t
subdomain:s terminationGracePeriodSeconds:i tolerations:*Toleration
topologySpreadConstraints:[topologyKey,whenUnsatisfiable]TopologySpreadConstraint volumes:[name]Volume; PodStatus
allocatedResources:%q conditions:[type]PodCondition containerStatuses:*ContainerStatus
ephemeralContainerStatuses:*ContainerStatus extendedResourceClaimStatus:PodExtendedResourceClaimStatus hostIP:s
hostIPs:*HostIP initContainerStatuses:*ContainerStatus message:s
nodeAllocatableResourceClaimStatuses:[resourceClaimName]NodeAllocatableResourceClaimStatus nominatedNodeName:s
observedGeneration:i phase:s podIP:s podIPs:[ip]PodIP qosClass:s reason:s resize:s
resourceClaimStatuses:[name]PodResourceClaimStatus resources:ResourceRequirements startTime:T
volumeHealth:[name]PodVolumeHealth; PodTemplate metadata:ObjectMeta! template:PodTemplateSpec!; PodTemplateSpec
metadata:ObjectMeta! spec:PodSpec!; PodVolumeHealth healthConditions:[status,reason]VolumeHealthCondition
lastTransitionTime:T name:s!; PodsMetricSource metric:MetricIdentifier! target:MetricTarget!; PodsMetricStatus
current:MetricValueStatus! metric:MetricIdentifier!; PolicyRule apiGroups:*s nonResourceURLs:*s resourceNames:*s
resources:*s verbs:*s~; PortStatus error:s port:i! protocol:s!; PortworxVolumeSource fsType:s readOnly:t volumeID:s!;
PreferredSchedulingTerm preference:NodeSelectorTerm! weight:i!; PriorityClass description:s globalDefault:t
metadata:ObjectMeta! preemptionPolicy:s value:i!; Probe exec:ExecAction failureThreshold:i grpc:GRPCAction
httpGet:HTTPGetAction initialDelaySeconds:i periodSeconds:i successThreshold:i tcpSocket:TCPSocketAction
terminationGracePeriodSeconds:i timeoutSeconds:i; ProjectedVolumeSource defaultMode:i defaultUser:i
sources:*VolumeProjection; QuobyteVolumeSource group:s readOnly:t registry:s! tenant:s user:s volume:s!;
RBDPersistentVolumeSource fsType:s image:s! keyring:s=/etc/ceph/keyring monitors:*s~ pool:s=rbd readOnly:t
secretRef:SecretReference user:s=admin; RBDVolumeSource fsType:s image:s! keyring:s=/etc/ceph/keyring monitors:*s~
pool:s=rbd readOnly:t secretRef:LocalObjectReference user:s=admin; ReplicaSet metadata:ObjectMeta!
spec:ReplicaSetSpec! status:ReplicaSetStatus!; ReplicaSetCondition lastTransitionTime:T message:s reason:s status:s!
type:s!; ReplicaSetSpec minReadySeconds:i replicas:i selector:LabelSelector~ template:PodTemplateSpec!;
ReplicaSetStatus availableReplicas:i conditions:[type]ReplicaSetCondition fullyLabeledReplicas:i observedGeneration:i
readyReplicas:i replicas:i! terminatingReplicas:i; ReplicationController metadata:ObjectMeta!
spec:ReplicationControllerSpec! status:ReplicationControllerStatus!; ReplicationControllerCondition
lastTransitionTime:T message:s reason:s status:s! type:s!; ReplicationControllerSpec minReadySeconds:i! replicas:i=1
selector:&s template:PodTemplateSpec; ReplicationControllerStatus availableReplicas:i
conditions:[type]ReplicationControllerCondition fullyLabeledReplicas:i observedGeneration:i readyReplicas:i
replicas:i!; ResourceClaim name:s! request:s; ResourceFieldSelector& containerName:s divisor:q resource:s!;
ResourceHealth health:s message:s resourceID:s!; ResourceMetricSource name:s! target:MetricTarget!;
ResourceMetricStatus current:MetricValueStatus! name:s!; ResourceQuota metadata:ObjectMeta! spec:ResourceQuotaSpec!
status:ResourceQuotaStatus!; ResourceQuotaSpec hard:%q scopeSelector:ScopeSelector scopes:*s; ResourceQuotaStatus
hard:%q used:%q; ResourceRequirements claims:[name]ResourceClaim limits:%q requests:%q; ResourceStatus name:s!
resources:[resourceID]ResourceHealth; Role metadata:ObjectMeta! rules:*PolicyRule; RoleBinding metadata:ObjectMeta!
roleRef:RoleRef! subjects:*Subject; RoleRef& apiGroup:s! kind:s! name:s!; RollingUpdateDaemonSet maxSurge:x
maxUnavailable:x; RollingUpdateDeployment maxSurge:x maxUnavailable:x; RollingUpdateStatefulSetStrategy
maxUnavailable:x partition:i; RuleWithOperations apiGroups:*s apiVersions:*s operations:*s resources:*s scope:s;
SELinuxOptions level:s role:s type:s user:s; ScaleIOPersistentVolumeSource fsType:s=xfs gateway:s! protectionDomain:s
readOnly:t secretRef:SecretReference~ sslEnabled:t storageMode:s=ThinProvisioned storagePool:s system:s! volumeName:s;
ScaleIOVolumeSource fsType:s=xfs gateway:s! protectionDomain:s readOnly:t secretRef:LocalObjectReference~ sslEnabled:t
storageMode:s=ThinProvisioned storagePool:s system:s! volumeName:s; ScopeSelector&
matchExpressions:*ScopedResourceSelectorRequirement; ScopedResourceSelectorRequirement operator:s! scopeName:s!
values:*s; SeccompProfile localhostProfile:s type:s!; Secret data:%b immutable:t metadata:ObjectMeta! stringData:%s
type:s; SecretEnvSource name:s! optional:t; SecretKeySelector& key:s! name:s! optional:t; SecretProjection
items:*KeyToPath name:s! optional:t; SecretReference& name:s namespace:s; SecretVolumeSource defaultMode:i
defaultUser:i items:*KeyToPath optional:t secretName:s; SecurityContext allowPrivilegeEscalation:t
appArmorProfile:AppArmorProfile capabilities:Capabilities privileged:t procMount:s readOnlyRootFilesystem:t
runAsGroup:i runAsNonRoot:t runAsUser:i seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
windowsOptions:WindowsSecurityContextOptions; SelectableField jsonPath:s!; Service metadata:ObjectMeta!
spec:ServiceSpec! status:ServiceStatus!; ServiceAccount automountServiceAccountToken:t
imagePullSecrets:*LocalObjectReference metadata:ObjectMeta! secrets:[name]ObjectReference;
ServiceAccountTokenProjection audience:s expirationSeconds:i path:s! user:i; ServiceBackendPort& name:s number:i;
ServicePort appProtocol:s name:s nodePort:i port:i! protocol:s=TCP targetPort:x; ServiceReference name:s namespace:s
port:i; ServiceSpec allocateLoadBalancerNodePorts:t clusterIP:s clusterIPs:*s externalIPs:*s externalName:s
externalTrafficPolicy:s healthCheckNodePort:i internalTrafficPolicy:s ipFamilies:*s ipFamilyPolicy:s
loadBalancerClass:s loadBalancerIP:s loadBalancerSourceRanges:*s ports:[port,protocol]ServicePort
publishNotReadyAddresses:t selector:&s sessionAffinity:s sessionAffinityConfig:SessionAffinityConfig
trafficDistribution:s type:s; ServiceStatus conditions:[type]Condition loadBalancer:LoadBalancerStatus!;
SessionAffinityConfig clientIP:ClientIPConfig; SleepAction seconds:i!; StatefulSet metadata:ObjectMeta!
spec:StatefulSetSpec! status:StatefulSetStatus!; StatefulSetCondition lastTransitionTime:T message:s reason:s
status:s! type:s!; StatefulSetOrdinals start:i!; StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted:s
whenScaled:s; StatefulSetSpec minReadySeconds:i ordinals:StatefulSetOrdinals
persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy:s replicas:i
revisionHistoryLimit:i selector:LabelSelector~ serviceName:s! template:PodTemplateSpec!
updateStrategy:StatefulSetUpdateStrategy! volumeClaimTemplates:*PersistentVolumeClaim; StatefulSetStatus
availableReplicas:i! collisionCount:i conditions:[type]StatefulSetCondition currentReplicas:i currentRevision:s
observedGeneration:i readyReplicas:i replicas:i! updateRevision:s updatedReplicas:i; StatefulSetUpdateStrategy
rollingUpdate:RollingUpdateStatefulSetStrategy type:s; StorageClass allowVolumeExpansion:t
allowedTopologies:*TopologySelectorTerm metadata:ObjectMeta! mountOptions:*s parameters:%s provisioner:s!
reclaimPolicy:s volumeBindingMode:s; StorageOSPersistentVolumeSource fsType:s readOnly:t secretRef:ObjectReference
volumeName:s volumeNamespace:s; StorageOSVolumeSource fsType:s readOnly:t secretRef:LocalObjectReference volumeName:s
volumeNamespace:s; Subject& apiGroup:s kind:s! name:s! namespace:s; SuccessPolicy rules:*SuccessPolicyRule~;
SuccessPolicyRule succeededCount:i succeededIndexes:s; Sysctl name:s! value:s!; TCPSocketAction host:s port:x~; Taint
effect:s! key:s! timeAdded:T value:s; Toleration effect:s key:s operator:s tolerationSeconds:i value:s;
TopologyConstraint key:s!; TopologySelectorLabelRequirement key:s! values:*s~; TopologySelectorTerm&
matchLabelExpressions:*TopologySelectorLabelRequirement; TopologySpreadConstraint labelSelector:LabelSelector
matchLabelKeys:*s maxSkew:i! minDomains:i nodeAffinityPolicy:s nodeTaintsPolicy:s topologyKey:s! whenUnsatisfiable:s!;
TypedLocalObjectReference& apiGroup:s kind:s! name:s!; TypedObjectReference apiGroup:s kind:s! name:s! namespace:s;
UncountedTerminatedPods failed:=s succeeded:=s; ValidatingWebhook admissionReviewVersions:*s~
clientConfig:WebhookClientConfig! failurePolicy:s matchConditions:[name]MatchCondition matchPolicy:s name:s!
namespaceSelector:LabelSelector objectSelector:LabelSelector rules:*RuleWithOperations sideEffects:s~
timeoutSeconds:i; ValidatingWebhookConfiguration metadata:ObjectMeta! webhooks:[name]ValidatingWebhook; Volume
awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource azureFile:AzureFileVolumeSource
cephfs:CephFSVolumeSource cinder:CinderVolumeSource configMap:ConfigMapVolumeSource csi:CSIVolumeSource
downwardAPI:DownwardAPIVolumeSource emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource
flexVolume:FlexVolumeSource flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource
gitRepo:GitRepoVolumeSource glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource
iscsi:ISCSIVolumeSource name:s! nfs:NFSVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource
photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource
secret:SecretVolumeSource storageos:StorageOSVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource; VolumeDevice
devicePath:s! name:s!; VolumeHealthCondition message:s reason:s! status:s!; VolumeHealthStatus
healthConditions:[status,reason]VolumeHealthCondition lastTransitionTime:T; VolumeMount bindMountOptions:=s
mountPath:s! mountPropagation:s name:s! readOnly:t recursiveReadOnly:s subPath:s subPathExpr:s; VolumeMountStatus
mountPath:s! name:s! readOnly:t recursiveReadOnly:s volumeStatus:VolumeStatus; VolumeNodeAffinity
required:NodeSelector; VolumeProjection clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection secret:SecretProjection
serviceAccountToken:ServiceAccountTokenProjection; VolumeResourceRequirements limits:%q requests:%q; VolumeStatus
image:ImageVolumeStatus; VsphereVirtualDiskVolumeSource fsType:s storagePolicyID:s storagePolicyName:s volumePath:s!;
WebhookClientConfig caBundle:b service:AdmissionregistrationV1ServiceReference url:s; WebhookConversion
clientConfig:ApiextensionsV1WebhookClientConfig conversionReviewVersions:*s~; WeightedPodAffinityTerm
podAffinityTerm:PodAffinityTerm! weight:i!; WindowsSecurityContextOptions gmsaCredentialSpec:s
gmsaCredentialSpecName:s hostProcess:t runAsUserName:s; WorkloadPodGroupAllDisruptionMode;
WorkloadPodGroupBasicSchedulingPolicy; WorkloadPodGroupDisruptionMode all:WorkloadPodGroupAllDisruptionMode
single:WorkloadPodGroupSingleDisruptionMode; WorkloadPodGroupGangSchedulingPolicy minCount:i;
WorkloadPodGroupResourceClaim name:s! resourceClaimName:s resourceClaimTemplateName:s;
WorkloadPodGroupSchedulingConstraints topology:*TopologyConstraint; WorkloadPodGroupSchedulingPolicy
basic:WorkloadPodGroupBasicSchedulingPolicy gang:WorkloadPodGroupGangSchedulingPolicy;
WorkloadPodGroupSingleDisruptionMode
"""
