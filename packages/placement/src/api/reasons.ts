/**
 * Every reason that a change, a wait, a refusal or a finding can carry: the same text in the Event, the metric label,
 * `plan` and `explain`. The value is what the reference documentation says about it. Reasons are never renamed.
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
  SourceNotRead: "The rules that set this mark have not been read by this process, so it stays.",
  RuleUnreadable:
    "The rule of this mark, or of a label that it depends on, cannot be read at present: neither set nor removed.",
  OtherInstallation: "The mark is recorded by another installation of Berth, so it stays.",
  ProtectedKey:
    "The key is under kubernetes.io or k8s.io and the current policy does not declare and allow it.",
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
