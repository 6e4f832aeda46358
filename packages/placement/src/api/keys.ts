/** The keys that Berth itself puts on objects. Keys of the formats it is compatible with live with their capability. */

/** Annotation on a Node: which of its marks are ours (see `node/record.ts`). */
export const MARKS_ANNOTATION = "berth.dev/marks";

/** Field manager of every write; must stay the same across releases, or `managedFields` no longer tells our writes. */
export const FIELD_MANAGER = "berth";
