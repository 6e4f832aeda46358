/**
 * Every reason of a change, a wait, a refusal or a finding. The Event, the metric label, `plan` and `explain` use the
 * same text. The value is its meaning in the reference documentation. Reasons are never renamed.
 */
const MEANINGS = {
  // Why a mark is set or recorded.
  RuleMatched: "A rule matches the node, so its label is set.",
  MarkRestored: "A mark of ours was removed by somebody else and is set again.",
  ValueRestored:
    "A mark of ours stands with another value than is wanted: somebody changed it, or its rule or inputs did.",
  ForeignValueReplaced: "The key stood with another value, and the rule that wants it overwrites.",
  Adopted: "A wanted mark stood already with that value; it is recorded as ours and nothing else changes.",
  OwnerChanged: "The mark stays; another capability or rule wants it now.",
  RecordRestored: "The ownership annotation had vanished and is written again from the last one seen.",
  // Why a mark is removed or no longer recorded.
  InputGone: "The rule is still there but no longer matches the node, so its mark is removed.",
  RuleGone: "The rule was deleted, so its mark is removed.",
  ExclusiveKeyPruned: "The key belongs to a capability alone and is not wanted on this node.",
  AlreadyGone: "A recorded mark is neither wanted nor on the node; only its record is dropped.",
  Cleaned: "`berth clean` removes what Berth has set.",
  CleanedByKey: "`berth clean --key` removes a leftover that is not recorded.",
  // Why a mark that would be changed stays as it is.
  SourceNotRead:
    "The rules that set this mark have not been read by this process, or their CRD is not served, so it stays.",
  KindAway:
    "The CRD of a kind is not served: all stays as it was for `--crd-grace`. After it labels and footprints stay as they stand, and gates and architecture policies let go.",
  SourceNotGiven:
    "The node records the mark, and this command was not given the source of its rule: it cannot tell whether the rule still wants it.",
  RuleUnreadable:
    "The rule of this mark, or of a label that it depends on, cannot be read at present: neither set nor removed.",
  OtherInstallation: "The mark is recorded by another installation of Berth, so it stays.",
  ProtectedKey:
    "The key is under kubernetes.io or k8s.io and the current policy does not declare and allow it.",
  PlaceNotDeclared:
    "The node says that Berth has set this taint or cordon, but no rule of this installation has declared it, so it stays.",
  RuleConflict: "Two rules match and want one label with different values; what stands stays.",
  RulesOverlap: "Several rules set one label; they merge where they agree.",
  RuleInForce: "The rule is in force.",
  DryRun: "The rule is on trial: it decides and counts, and changes nothing.",
  ConfirmationRequired: "The rule would change more nodes than it may unasked, and waits to be confirmed.",
  RuleInvalid: "The rule has a fault and is not in force; its marks stay.",
  RemovalDelayed: "The rule no longer holds, and its mark stays for the delay that the rule sets.",
  RemovalsFrozen: "Too many nodes would lose marks of the rule at once, so none does until it is confirmed.",
  MarkConflict: "Two capabilities want one key with different values; neither writes it.",
  MarkInvalid: "The API server would refuse this mark, so it is not sent.",
  ForeignValueKept: "The key stands with another value that is not ours, and the rule does not overwrite.",
  Contested: "Another writer keeps reverting the key; Berth waits before it tries again.",
  WriteRefused:
    "The API server refused the change as invalid or forbidden; the other changes were sent without it.",
  AnnotationsFull: "The node's annotations would exceed 256 KiB, so nothing new is set.",
  RecordUnreadable: "The ownership annotation cannot be read or is of a newer version; nothing is removed.",
  Unrecorded: "A key that a rule could have set stands without a record; it is left alone.",
  // Why a write waits.
  NodeDeleting: "The node is being deleted and is left alone.",
  NewerVersionAwaited: "The cache has not caught up with a version that is known to exist.",
  // Actions of a startup gate on a node.
  Gated: "A startup gate holds the node: pods that do not tolerate its taint wait.",
  HeldAgain:
    "A startup gate holds a node again that it had let go: a signal was lost, or the node was rebooted.",
  Released: "All signals of the startup gate have held long enough, so its taint is taken off.",
  TimedOut: "A signal of the startup gate did not come in time; what happens then is the gate's own choice.",
  ReleasedByHand: "A person let the node go, by `berth gate release` or by taking the taint off.",
  GateNotSelected: "The startup gate does not select the node.",
  GateMissed:
    "The node came without the taint of a startup gate and runs pods already, so it is left as it is.",
  GateCapReached: "The startup gate would hold the node again, but holds as many again as it may.",
  BackfillPending: "It is being looked up whether the node, which came without the taint, runs pods already.",
  WouldHold: "The startup gate is in dry run; without it the gate would hold the node.",
  WouldRelease: "The startup gate is in dry run; without it the gate would let the node go.",
  // Why a startup gate holds a node: the results of its signals.
  SignalHolds: "What the signal asks for is there.",
  SignalUnknown: "What the signal is read from has not been read yet.",
  PodMissing: "No pod that counts is on the node.",
  PodNotReady: "A pod on the node is not ready.",
  DaemonSetMissing: "There is no DaemonSet of this name.",
  DaemonSetBlocked:
    "The DaemonSet is expected on the node but does not tolerate the gate, so its pod can never come.",
  DaemonSetNotExpected: "The DaemonSet is not meant for the node, so it is not waited for.",
  ConditionMissing: "The node does not have the condition with the status that is wanted.",
  AnnotationMissing: "The node does not have the annotation with the value that is wanted.",
  ResourceMissing: "The node does not offer the resource.",
  NoAlternative: "None of the alternatives in signals.anyOf holds.",
  LabelsUnsettled: "The derived labels of the node do not stand yet as the rules want them.",
  GateBefore: "Another startup gate has to let go of the node first.",
  NotStable: "All signals hold, and have yet to do so for the time that is wanted.",
  MinimumHold: "All signals hold, and the node has yet to be held for the least time.",
  // About a startup gate itself.
  GateInForce: "The startup gate is in force.",
  GateInvalid: "The startup gate has a fault and is not in force; nodes that it holds stay held.",
  GateOverlap: "Two startup gates want one taint or one annotation; the later one is not in force.",
  AdmissionByPolicy: "The API server itself puts the taint on new nodes, by a MutatingAdmissionPolicy.",
  AdmissionByWebhook:
    "Berth is asked by the API server: about new nodes, to put the taint on them, or about new pods.",
  AdmissionOff:
    "The API server asks nobody: new nodes are gated after their creation, when idle, and new pods are not narrowed.",
  AdmissionFailed:
    "What has new nodes tainted or Berth asked about new pods could not be set up, or does not act.",
  // About the architecture of pods and nodes.
  ArchitectureTainted:
    "The node is tainted with its architecture; pods whose images run on it tolerate that.",
  ArchitectureUnknown: "The node does not say which architecture it has, so it is not tainted with it.",
  ArchitectureBootstrapping:
    "Nodes are not tainted yet: some pods or DaemonSets would not tolerate it, or a person has yet to say so.",
  ArchitecturesResolved:
    "All images of the pod are known, and it is kept to the architectures they have in common.",
  ArchitecturesGiven: "The pod names its architectures itself, by the annotation berth.dev/architectures.",
  ArchitectureOptedOut: "No architecture policy governs the pod, so it may run on every architecture.",
  ArchitectureUnrestricted: "No image of the pod restricts where it runs.",
  NoCommonArchitecture: "No architecture runs all images of the pod, so it can run nowhere.",
  ArchitectureLeftToPod:
    "The pod requires architectures itself, and the preset of the policy leaves such pods alone.",
  RequiredArchitectureConflict:
    "The pod requires an architecture that not all of its images run on, so it can run nowhere.",
  ImagesPending: "The images of the pod are being looked up.",
  HoldExpired: "The images of the pod were not known in time; what happens then is the policy's own choice.",
  DaemonSetPod: "The DaemonSet controller has chosen the node of the pod, so its affinity is left alone.",
  PodScheduled: "The pod has its node already and is left alone.",
  PodPatchRefused: "The API server refused to change the pod; it is let go unchanged where that is possible.",
  DaemonSetTolerated: "The pod template of the DaemonSet tolerates the architectures that its images run on.",
  // Why the platforms of an image are unknown.
  TooManyImages: "The pod names more different images than Berth looks up for one pod.",
  ImageNameInvalid: "The name of the image cannot be read.",
  ImageNotFound: "The registry does not know the image, or does not show it to whoever may not see it.",
  ImageWithoutPlatform: "What the name stands for is no image that runs: it names no platform.",
  ImageMalformed: "What the registry says of the image cannot be read or is not what was asked for.",
  RegistryNotAllowed: "The configuration does not let images of this registry be looked up.",
  RegistryUnauthorized: "The registry wants other credentials than there are for the image.",
  RegistryForbidden: "The registry does not allow these credentials to read the image.",
  RegistryRateLimited: "The registry wants to be asked less often.",
  RegistryUnreachable: "The registry does not answer.",
  RegistryFailed: "The registry answers that it cannot answer.",
  RegistrySuspended: "The registry failed so often lately that it is left alone for a while.",
  PullSecretUnreadable: "A pull secret of the pod is missing, may not be read, or is none.",
  // About an architecture policy itself.
  ArchitecturePolicyInForce: "The architecture policy is in force.",
  ArchitecturePolicyInvalid: "The architecture policy has a fault and is not in force.",
  // Actions of a footprint.
  FootprintNeeded: "A pod on the node needs the agent of a footprint, so the node carries its marks.",
  FootprintUnknown:
    "It is not known yet which pods on the node need the agent of a footprint, so what stands stays.",
  FootprintOwnerless:
    "A pod that needs the agent of a footprint has lost its owner, and counts for it until it ends.",
  FootprintHindered:
    "Something that a footprint needs cannot be read or written, mostly for want of a right; the message names it.",
  FootprintNodeExcluded: "The footprint leaves the node alone.",
  FootprintGroupRefused:
    "A pod names a group that it does not belong to, or that cannot be one, so it does not bring an agent.",
  FootprintClaimsCapped:
    "Pods of more groups need the agent on a node than can claim it; the label stands all the same.",
  ForeignFootprintMark:
    "A mark of a footprint stands where nobody needs the agent, and Berth has not set it; it is left alone.",
  FootprintInForce: "The footprint is in force.",
  FootprintInvalid: "The footprint has a fault and is not in force, or in force as it was before.",
  FootprintOverlap:
    "Two footprints want one label, or claims that cannot be told apart; neither of the documents is taken up.",
  OwnerGuarded: "The owner has the finalizer of a footprint, so that its deletion waits for its pods.",
  OwnerHeld: "The owner is being deleted, and something of it is still there: it waits for that.",
  OwnerReleased: "Nothing of the owner is left, so its deletion goes on.",
  HoldTimedOut: "The owner has waited as long as it may, and is let go although something of it is left.",
  HoldDropped: "No footprint holds such owners any more, so the finalizer is taken off.",
  NoOwnerHeld: "No deletion of an owner waits.",
  NoForeignMarks: "No mark of the footprint stands that somebody else has set.",
  AgentPlaced: "Nothing keeps the agent of a footprint from the nodes that need it.",
  WorkerPoolDeploymentMissing: "The Deployment of a WorkerPool is not there, so it is created.",
  WorkerPoolDeploymentDiffers:
    "The Deployment of a WorkerPool is not as the pool asks for, so it is applied again.",
  WorkerPoolNotAllowed:
    "The lists of the document WorkerPools do not allow the pool, so nothing is made of it; what stands stays.",
  WorkerPoolInvalid: "The WorkerPool has a fault, so nothing is made of it; what stands stays.",
  AgentUnschedulable:
    "The DaemonSet of the agent cannot run on a node that needs it: a taint, or what it asks of nodes, keeps it away.",
  AgentEverywhere:
    "The DaemonSet of the agent does not ask for the footprint's label, so it runs where it is not needed.",
  AgentPriority:
    "The DaemonSet of the agent has no system priority class: it may find no room, and autoscalers leave none.",
  AgentFollows: "The DaemonSet of the agent asks for the footprint's label from now on, which rolls it out.",
  // About pods whose node does not match them any more.
  PodDescheduled: "Berth evicts the pod, because its node lacks what the pod asks for.",
  EvictionOptedOut: "The pod or its namespace asks not to be evicted.",
  PodProtected: "The pod is of a sort that Berth evicts only where the policy includes it.",
  EvictionDelayed: "The pod has not been on a wrong node for as long as the policy waits.",
  PodTooYoung: "The pod is younger than the policy asks for.",
  EvictionsFrozen: "Too many pods of the policy would go at once, so none goes.",
  ReplacementAwaited:
    "Another pod of the same owner was evicted or is not Ready, and Berth evicts one pod of an owner at a time.",
  ReplacementMissing: "Ten minutes after an eviction the owner has not made another pod.",
  OwnerGivenUp: "New pods of the owner came to wrong nodes three times, so Berth leaves its pods.",
  DisruptionBudget: "A PodDisruptionBudget does not allow the eviction now.",
  EvictionRefused: "The API server refuses the eviction.",
  EvictionLimit: "As many evictions are in progress as the policy allows.",
  NoOtherNode: "No other node takes the pod.",
  FitUnknown: "Berth cannot tell whether another node takes the pod.",
  PodsUnread: "Berth cannot read pods or namespaces, so it evicts nothing.",
  DeschedulePolicyInForce: "The policy is in force.",
  DeschedulePolicyInvalid: "The policy has a fault and is not in force; its pods stay.",
  // Faults of a folder of label rules.
  InvalidLabelKey: "The path of the file is not a valid label key; the file is no rule.",
  ReservedLabelKey: "The label key is under kubernetes.io or k8s.io and is not allowed by option.",
  FileUnreadable: "The file cannot be read; its label is neither set nor removed.",
  FolderIncomplete: "The folder could not be read completely; labels of files that are not seen stay.",
  EditorLeftover: "The file looks like a leftover of an editor; it is a rule all the same.",
  EmptyRule: "The file names no label key, so its label is removed from every node.",
  NeverMatches: "The line is not a valid label key, so no node can carry it.",
  CyclicRule:
    "The rule depends on its own label, which never supports itself; a document is not in force then.",
} as const;

/** The name of a reason, PascalCase as in Kubernetes. */
export type Reason = keyof typeof MEANINGS;

/** One constant per reason: `reasons.InputGone === "InputGone"`. */
export const reasons: { readonly [R in Reason]: R } = Object.freeze(
  Object.fromEntries(Object.keys(MEANINGS).map((reason) => [reason, reason])),
) as { readonly [R in Reason]: R };

/** All reasons with their meaning, in the order of the reference documentation. */
export const reasonList: readonly { readonly reason: Reason; readonly meaning: string }[] = Object.freeze(
  Object.entries(MEANINGS).map(([reason, meaning]) => ({ reason: reason as Reason, meaning })),
);
