/** An explanation as text for people. */
import { formatAge, formatColumns, MOST_LISTED, type Style } from "@berth/host";
import { fromTime } from "@berth/runtime";
import type { FleetExplanation, TreeNode } from "./explain.ts";
import { unreadText } from "./facts.ts";
import { nextText } from "./next.ts";

/** @param nowMs wall clock. Ends with a line feed. */
export function formatExplanation(explanation: FleetExplanation, nowMs: number, style: Style): string {
  const { about, blocking, advice, next, since, unread, tree } = explanation;
  const headline =
    blocking === undefined
      ? style.heading(`${about}: nothing ${unread.length > 0 ? "that was read " : ""}blocks it`)
      : style.warning(`${blocking.reason}: ${blocking.about}: ${blocking.message}`);
  const rows = [
    ...(blocking?.since === undefined ? [] : [["since", ageText(blocking.since, nowMs)]]),
    ...(since === undefined || since === blocking?.since ? [] : [["known as of", ageText(since, nowMs)]]),
    ...(advice === undefined ? [] : [["what helps", advice]]),
    ["next look", nextText(next)],
    ...unread.map((it) => ["not known", unreadText(it)]),
  ];
  return `${headline}\n${formatColumns(rows, "  ")}\n${formatColumns(linesOf(tree, "", ""))}`;
}

/** `2026-11-23T03:07:56Z (1s)` */
function ageText(since: string, nowMs: number): string {
  return `${since} (${formatAge(nowMs - (fromTime(since) ?? nowMs))})`;
}

function linesOf(node: TreeNode, first: string, rest: string): readonly (readonly string[])[] {
  const { kind, name, state, detail } = node;
  // Of an Instance that is ready, one line says enough.
  const isWhole = first === "" || kind !== "Instance" || state !== "ready";
  const children = isWhole ? shortened(node.children) : [];
  return [
    [`${first}${kind}${name === "" ? "" : ` ${name}`}`, state, detail],
    ...children.flatMap((child, at) =>
      at === children.length - 1
        ? linesOf(child, `${rest}└─ `, `${rest}   `)
        : linesOf(child, `${rest}├─ `, `${rest}│  `),
    ),
  ];
}

/** Of many children, those that are not ready come first, and the rest is a number. */
function shortened(children: readonly TreeNode[]): readonly TreeNode[] {
  if (children.length <= MOST_LISTED) return children;
  const isReady = ({ state }: TreeNode): boolean => state === "ready";
  const shown = [...children.filter((it) => !isReady(it)), ...children.filter(isReady)].slice(0, MOST_LISTED);
  const left = children.filter((it) => !shown.includes(it));
  const notReady = left.filter((it) => !isReady(it)).length;
  const detail = notReady === 0 ? "all ready" : `${notReady} of them not ready`;
  return [...shown, { kind: "…", name: `${left.length} more`, state: "", detail, children: [] }];
}
