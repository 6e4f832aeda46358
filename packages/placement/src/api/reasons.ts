/**
 * Every reason of a change, a wait, a refusal or a finding. The Event, the metric label, `plan` and `explain` use the
 * same text. The value is its meaning in the reference documentation. Reasons are never renamed.
 */
const MEANINGS = {
  // Why a mark is set or recorded.
  RuleMatched: "A rule matches the node, so its label is set.",
  MarkRestored: "Another writer removed a mark that Berth had set; Berth sets it again.",
  ValueRestored:
    "A mark of Berth has another value than wanted: another writer changed it, or its rule or inputs changed.",
  ForeignValueReplaced: "The key had another value, and the rule that wants it overwrites other values.",
  Adopted:
    "The node already had the wanted mark with that value; Berth records it as its own and changes nothing else.",
  OwnerChanged: "The mark stays; another capability or rule wants it now.",
  RecordRestored: "The ownership annotation had vanished; Berth writes the last one that it read.",
  RuleLabelsNothing: "`berth plan`: the rule labels no node. Often it compares a key that no node has.",
  // Warnings about documents that are in force.
  GateNeverOpens:
    "Signals of the gate can never hold together, or it waits for a DaemonSet that does not exist.",
  FootprintUnneeded: "`berth plan`: no pod needs the agent of the footprint on any node.",
  EveryPodViolates:
    "`berth plan`: every pod that the DeschedulePolicy is about is on a node that it finds wrong.",
  ImageNotForNode: "The new image of a running pod does not run on the architecture of its node.",
  // Why a mark is removed or no longer recorded.
  InputGone: "The rule is still there but no longer matches the node, so its mark is removed.",
  RuleGone: "The rule was deleted, so its mark is removed.",
  ExclusiveKeyPruned: "Only one capability uses the key, and it does not want the key on this node.",
  AlreadyGone: "A recorded mark is neither wanted nor on the node; Berth drops only its record.",
  Cleaned: "`berth clean` removes what Berth has set.",
  CleanedByKey: "`berth clean --key` removes a leftover that is not recorded.",
  // Why a mark that would be changed stays as it is.
  SourceNotRead:
    "This process has not read the rules of this mark, or the API server does not serve their CRD, so the mark stays.",
  KindAway:
    "The API server does not serve the CRD of a kind: nothing changes for `--crd-grace`. Then labels and footprints stay, and gates and architecture policies release what they hold.",
  SourceNotGiven:
    "The node records the mark. This command did not get the source of its rule, so it cannot tell whether the rule still wants the mark.",
  RuleUnreadable:
    "Berth cannot read the rule of this mark, or of a label that it depends on, and neither sets nor removes the mark.",
  OtherInstallation: "Another installation of Berth has recorded the mark, so it stays.",
  ProtectedKey:
    "The key is under kubernetes.io or k8s.io and the current policy does not declare and allow it.",
  PlaceNotDeclared:
    "The node's record says that Berth set this taint or cordon, but no rule of this installation has declared it, so it stays.",
  RuleConflict: "Two rules match and want one label with different values; Berth does not change it.",
  RulesOverlap: "Several rules set one label; equal values merge.",
  RuleInForce: "The rule is in force.",
  DryRun: "The rule is in dry run: Berth evaluates it and counts nodes, and changes nothing.",
  ConfirmationRequired:
    "The rule would change more nodes than it may without confirmation, and waits for `berth confirm`.",
  RuleInvalid: "The rule has a fault and is not in force; its marks stay.",
  RemovalDelayed: "The rule no longer holds, and its mark stays for the delay that the rule sets.",
  RemovalsFrozen:
    "Too many nodes would lose marks of the rule at once, so Berth removes none until a user confirms the rule.",
  MarkConflict: "Two capabilities want one key with different values; neither writes it.",
  MarkInvalid: "The API server would refuse this mark, so Berth does not send it.",
  ForeignValueKept: "The key has another value that Berth did not set, and the rule does not overwrite it.",
  Contested: "Another writer keeps reverting the key; Berth waits before it tries again.",
  WriteRefused:
    "The API server refused the change as invalid or forbidden; Berth sent the other changes without it.",
  AnnotationsFull: "The node's annotations would exceed 256 KiB, so Berth sets nothing new.",
  RecordUnreadable:
    "Berth cannot read the ownership annotation, or a newer version wrote it; Berth removes nothing.",
  Unrecorded: "The node has a key that a rule could have set, but no record of it; Berth leaves it alone.",
  // Why a write waits.
  NodeDeleting: "The node is being deleted, so Berth leaves it alone.",
  // Actions of a startup gate on a node.
  Gated: "A startup gate holds the node: pods that do not tolerate its taint wait.",
  HeldAgain:
    "A startup gate holds a node again that it had released: a signal was lost, or the node rebooted.",
  Released: "All signals of the startup gate have held long enough, so Berth removes its taint.",
  TimedOut: "A signal of the startup gate did not come in time; the gate's `timeouts` say what happens then.",
  ReleasedByHand: "A user released the node, by `berth gate release` or by removing the taint.",
  GateNotSelected: "The startup gate does not select the node.",
  GateMissed:
    "The node joined without the taint of a startup gate and already runs pods, so Berth leaves it as it is.",
  GateCapReached: "The startup gate would hold the node again, but its limit of nodes held again is reached.",
  BackfillPending: "The node joined without the taint, and Berth checks whether it already runs pods.",
  WouldHold: "The startup gate is in dry run; without it the gate would hold the node.",
  WouldRelease: "The startup gate is in dry run; without it the gate would release the node.",
  // Why a startup gate holds a node: the results of its signals.
  SignalHolds: "The node has what the signal requires.",
  SignalUnknown: "Berth has not read the objects of the signal yet.",
  PodMissing: "The node has no pod that counts.",
  PodNotReady: "A pod on the node is not ready.",
  DaemonSetMissing: "No DaemonSet has this name.",
  DaemonSetBlocked:
    "The DaemonSet is expected on the node but does not tolerate the gate, so its pod can never run there.",
  DaemonSetNotExpected: "The DaemonSet is not meant for the node, so the gate does not wait for it.",
  ConditionMissing: "The node does not have the condition with the required status.",
  AnnotationMissing: "The node does not have the annotation with the required value.",
  ResourceMissing: "The node does not offer the resource.",
  NoAlternative: "None of the alternatives in signals.anyOf holds.",
  LabelsUnsettled: "The derived labels of the node are not yet as the rules want them.",
  GateBefore: "Another startup gate must release the node first.",
  NotStable: "All signals hold, but not yet for the required time.",
  MinimumHold: "All signals hold, but the gate has not yet held the node for the minimum time.",
  // About a startup gate itself.
  GateInForce: "The startup gate is in force.",
  GateInvalid: "The startup gate has a fault and is not in force; nodes that it holds stay held.",
  GateOverlap: "Two startup gates want one taint or one annotation; the newer one is not in force.",
  AdmissionByPolicy: "The API server itself puts the taint on new nodes, by a MutatingAdmissionPolicy.",
  AdmissionByWebhook:
    "The API server asks Berth about new nodes, to put the taint on them, or about new pods.",
  AdmissionOff:
    "The API server does not ask Berth: Berth gates new nodes after their creation, when idle, and does not narrow new pods.",
  AdmissionFailed:
    "Berth could not set up the policy or webhook for new nodes or new pods, or it does not act.",
  // About the architecture of pods and nodes.
  ArchitectureTainted:
    "The node is tainted with its architecture; pods whose images run on it tolerate that.",
  ArchitectureUnknown: "The node does not report its architecture, so Berth does not taint it.",
  ArchitectureBootstrapping:
    "Berth does not taint nodes yet: some pods or DaemonSets would not tolerate it, or a user has not confirmed it yet.",
  ArchitecturesResolved:
    "All images of the pod are known, and Berth keeps the pod to the architectures that they have in common.",
  ArchitecturesGiven: "The pod names its architectures itself, by the annotation berth.dev/architectures.",
  ArchitectureOptedOut: "No architecture policy governs the pod, so it may run on every architecture.",
  ArchitectureUnrestricted: "No image of the pod restricts where it runs.",
  NoCommonArchitecture: "No architecture runs all images of the pod, so it can run nowhere.",
  ArchitectureLeftToPod:
    "The pod requires architectures itself, and the preset of the policy leaves such pods alone.",
  RequiredArchitectureConflict:
    "The pod requires an architecture that not all of its images run on, so it can run nowhere.",
  ImagesPending: "Berth is looking up the images of the pod.",
  HoldExpired:
    "The images of the pod were not known in time; the policy's `afterMaxHold` says what happens then.",
  PodScheduled: "The pod already has its node, so Berth leaves it alone.",
  PodPatchRefused:
    "The API server refused to change the pod; Berth releases it unchanged where that is possible.",
  DaemonSetTolerated: "The pod template of the DaemonSet tolerates the architectures that its images run on.",
  // Why the platforms of an image are unknown.
  TooManyImages:
    "The pod names more different images than Berth looks up for one pod, or more affinity than it compares with them.",
  ImageNameInvalid: "The name of the image is not valid.",
  ImageNotFound: "The registry does not have the image, or hides it from users without access.",
  ImageWithoutPlatform:
    "The name refers to something that names no platform, so it is not an image that can run.",
  ImageMalformed:
    "Berth cannot read the registry's answer about the image, or the answer does not match the request.",
  RegistryNotAllowed: "The configuration does not allow lookups at this registry.",
  RegistryUnauthorized: "The registry does not accept the credentials that Berth has for the image.",
  RegistryForbidden: "The registry does not allow these credentials to read the image.",
  RegistryRateLimited: "The registry limits the rate of requests.",
  RegistryUnreachable: "The registry does not answer.",
  RegistryFailed: "The registry reports a failure of its own.",
  RegistrySuspended: "The registry failed so often lately that Berth does not ask it for a while.",
  CredentialProviderFailed:
    "A program that gives Berth credentials for images failed. Berth runs it again; its log says when it failed first.",
  PullSecretUnreadable:
    "A pull secret of the pod is missing, is not a pull secret, or Berth may not read it.",
  // About an architecture policy itself.
  ArchitecturePolicyInForce: "The architecture policy is in force.",
  ArchitecturePolicyInvalid: "The architecture policy has a fault and is not in force.",
  // Actions of a footprint.
  FootprintNeeded: "A pod on the node needs the agent of a footprint, so the node carries its marks.",
  FootprintUnknown:
    "Berth does not know yet which pods on the node need the agent of a footprint, so it changes nothing there.",
  FootprintOwnerless:
    "A pod that needs the agent of a footprint has lost its owner, and still counts for that owner until the pod ends.",
  FootprintHindered:
    "Berth cannot read or write objects that a footprint needs, mostly because a permission is missing; the message names it.",
  FootprintNodeExcluded: "The footprint leaves the node alone.",
  FootprintGroupRefused:
    "A pod names a group that it does not belong to, or that cannot be one, so it does not bring an agent.",
  FootprintClaimsCapped:
    "Pods of more groups need the agent on a node than can claim it; the node has the label all the same.",
  ForeignFootprintMark:
    "A node has a mark of a footprint that Berth did not set, and no pod there needs the agent; Berth leaves the mark alone.",
  FootprintInForce: "The footprint is in force.",
  FootprintInvalid: "The footprint has a fault and is not in force, or in force as it was before.",
  FootprintOverlap:
    "Two footprints want one label, or claims that Berth cannot tell apart; the newer one is not in force.",
  OwnerGuarded: "The owner has the finalizer of a footprint, so that its deletion waits for its pods.",
  OwnerHeld: "The owner is being deleted, and its deletion waits for objects of the owner that still exist.",
  OwnerReleased: "Nothing of the owner is left, so its deletion goes on.",
  HoldTimedOut: "The owner has waited as long as it may; Berth releases it although objects of it are left.",
  HoldDropped: "No footprint holds such owners any more, so Berth removes the finalizer.",
  NoOwnerHeld: "No deletion of an owner waits.",
  NoForeignMarks: "No node has a mark of the footprint that another writer set.",
  AgentPlaced: "Nothing keeps the agent of a footprint from the nodes that need it.",
  WorkerPoolDeploymentMissing: "The Deployment of a WorkerPool does not exist, so Berth creates it.",
  WorkerPoolDeploymentDiffers:
    "The Deployment of a WorkerPool is not as the pool asks for, so Berth applies it again.",
  WorkerPoolNotAllowed:
    "The lists of the document WorkerPools do not allow the pool; Berth creates nothing for it and leaves an existing Deployment alone.",
  WorkerPoolInvalid:
    "The WorkerPool has a fault; Berth creates nothing for it and leaves an existing Deployment alone.",
  AgentUnschedulable:
    "The DaemonSet of the agent cannot run on a node that needs it: a taint or its own node requirements keep it away.",
  AgentEverywhere:
    "The DaemonSet of the agent does not ask for the footprint's label, so it also runs on nodes that do not need it.",
  AgentPriority:
    "The DaemonSet of the agent has no system priority class: it may find no room, and autoscalers reserve none.",
  AgentFollows:
    "The DaemonSet of the agent asks for the footprint's label from now on, which rolls out its pods.",
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
  OwnerTooSmall: "The owner of the pod has fewer pods than the policy asks for.",
  DisruptionBudget: "A PodDisruptionBudget does not allow the eviction now.",
  EvictionRefused: "The API server refuses the eviction.",
  EvictionLimit: "As many evictions are in progress as the policy allows.",
  NoOtherNode: "No other node takes the pod.",
  FitUnknown: "Berth cannot tell whether another node takes the pod.",
  PodsUnread: "Berth cannot read pods or namespaces, so it evicts nothing.",
  DeschedulePolicyInForce: "The policy is in force.",
  DeschedulePolicyInvalid: "The policy has a fault and is not in force; its pods stay.",
  // Faults of a folder of label rules.
  InvalidLabelKey: "The path of the file is not a valid label key, so Berth ignores the file.",
  ReservedLabelKey: "The label key is under kubernetes.io or k8s.io, and no option allows it.",
  FileUnreadable: "Berth cannot read the file, and neither sets nor removes its label.",
  FolderIncomplete: "Berth could not read the whole folder; labels of files that it did not see stay.",
  EditorLeftover: "The file looks like a leftover of an editor; Berth uses it as a rule all the same.",
  EmptyRule: "The file names no label key, so Berth removes its label from every node.",
  NeverMatches: "The line is not a valid label key, so no node can carry it.",
  CyclicRule:
    "The rule depends on its own label, and a label never supports itself; such a document is not in force.",
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
