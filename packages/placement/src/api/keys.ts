/** The keys that Berth itself puts on objects. Keys of the formats it is compatible with live with their capability. */

/** Annotation on a Node that lists the marks of Berth (see `node/record.ts`). */
export const MARKS_ANNOTATION = "berth.dev/marks";

/** Field manager of every write. It must stay the same in all releases: `managedFields` identifies Berth by it. */
export const FIELD_MANAGER = "berth";
