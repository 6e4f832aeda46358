/** The one screen of `berth status`. Pure. */
import { formatAge, formatColumns, MOST_LISTED, type Style } from "@berth/host";

/** The documents of one kind. `isRead`: the API server serves the kind, and lets the user read it. */
export interface KindLine {
  readonly kind: string;
  readonly isRead: boolean;
  readonly inForce: number;
  readonly faulty: number;
  /** No running Berth has looked at this version of them. */
  readonly unseen: number;
}

export interface RemarkLine {
  /** `startupgate/network` */
  readonly object: string;
  readonly text: string;
  readonly needsPerson: boolean;
  /** RFC 3339. */
  readonly since?: string;
  /** The first nodes that it is about; `since` as their record has it. */
  readonly nodes?: readonly { readonly node: string; readonly since?: string }[];
}

export interface StatusScreen {
  readonly documents: readonly KindLine[];
  readonly remarks: readonly RemarkLine[];
  /** Wall clock, ms. */
  readonly now: number;
}

/** Documents by kind, then what a person has to do, then what Berth does. At most `MOST_LISTED` lines of each. */
export function formatStatus({ documents, remarks, now }: StatusScreen, style: Style): string {
  const kinds = documents.filter(({ inForce, faulty, unseen }) => inForce + faulty + unseen > 0);
  const rows = kinds.map((it) => [it.kind, it.inForce, it.faulty, it.unseen].map(String));
  const unread = documents.filter(({ isRead }) => !isRead).map(({ kind }) => kind);
  const block = (title: string, lines: readonly RemarkLine[]): readonly string[] =>
    lines.length === 0 ? [] : [`${style.heading(title)}\n${formatRemarks(lines, now)}`];
  return [
    rows.length === 0
      ? "There is no document of Berth.\n"
      : formatColumns([["DOCUMENTS", "IN FORCE", "FAULTY", "UNSEEN"], ...rows]),
    ...(unread.length > 0 ? [`Not served, or not readable: ${unread.join(", ")}\n`] : []),
    ...block(
      "Needs a person",
      remarks.filter((it) => it.needsPerson),
    ),
    ...block(
      "Goes on by itself",
      remarks.filter((it) => !it.needsPerson),
    ),
  ].join("\n");
}

function formatRemarks(lines: readonly RemarkLine[], now: number): string {
  const ago = (since: string | undefined): string =>
    since === undefined ? "" : ` (${formatAge(now - Date.parse(since))})`;
  const rows = lines.slice(0, MOST_LISTED).map(({ object, text, since, nodes = [] }) => {
    const names = nodes.map((it) => `${it.node}${ago(it.since)}`).join(", ");
    return [object, `${text}${ago(since)}${names === "" ? "" : `: ${names}`}`];
  });
  const more = lines.length - rows.length;
  return `${formatColumns(rows, "  ")}${more > 0 ? `  … and ${more} more: -o json lists them\n` : ""}`;
}
