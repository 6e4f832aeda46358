/**
 * The fields of Nodes, and of the answers that carry them, by their numbers in protobuf (`generated.proto` of k8s.io/api
 * and k8s.io/apimachinery, Kubernetes 1.37). The numbers never change. A wanted field that is missing here is
 * read as JSON.
 */
import type { Resource } from "../resource.ts";

/** How a value is written, and what it is in JSON: `time` is RFC 3339 text, `quantity` is text. */
export type Kind = "text" | "number" | "flag" | "time" | "quantity" | Message;

export interface Field {
  /** As in JSON. */
  readonly name: string;
  readonly kind: Kind;
  readonly is: "one" | "list" | "map";
  /** JSON has it when it is empty too: it is not `omitempty`, or it is a pointer, which protobuf omits itself. */
  readonly always: boolean;
}

export interface Message {
  readonly fields: Readonly<Record<number, Field>>;
  /** It has each field that Kubernetes 1.37 knows. */
  readonly isWhole: boolean;
}

const one = (name: string, kind: Kind = "text"): Field => ({ name, kind, is: "one", always: false });
const always = (name: string, kind: Kind = "text"): Field => ({ name, kind, is: "one", always: true });
const list = (name: string, kind: Kind = "text"): Field => ({ name, kind, is: "list", always: false });
const map = (name: string, kind: Kind = "text"): Field => ({ name, kind, is: "map", always: false });
const whole = (fields: Message["fields"]): Message => ({ fields, isWhole: true });
const part = (fields: Message["fields"]): Message => ({ fields, isWhole: false });

const ownerReference = whole({
  1: always("kind"),
  3: always("name"),
  4: always("uid"),
  5: always("apiVersion"),
  6: always("controller", "flag"),
  7: always("blockOwnerDeletion", "flag"),
});

/** Without `managedFields`. */
const objectMeta = part({
  1: one("name"),
  2: one("generateName"),
  3: one("namespace"),
  5: one("uid"),
  6: one("resourceVersion"),
  7: one("generation", "number"),
  8: one("creationTimestamp", "time"),
  9: one("deletionTimestamp", "time"),
  10: always("deletionGracePeriodSeconds", "number"),
  11: map("labels"),
  12: map("annotations"),
  13: list("ownerReferences", ownerReference),
  14: list("finalizers"),
});

const taint = whole({ 1: always("key"), 2: one("value"), 3: always("effect"), 4: one("timeAdded", "time") });

const nodeCondition = whole({
  1: always("type"),
  2: always("status"),
  3: one("lastHeartbeatTime", "time"),
  4: one("lastTransitionTime", "time"),
  5: one("reason"),
  6: one("message"),
});

const nodeInfo = whole({
  1: always("machineID"),
  2: always("systemUUID"),
  3: always("bootID"),
  4: always("kernelVersion"),
  5: always("osImage"),
  6: always("containerRuntimeVersion"),
  7: always("kubeletVersion"),
  8: always("kubeProxyVersion"),
  9: always("operatingSystem"),
  10: always("architecture"),
  11: one("swap", whole({ 1: always("capacity", "number") })),
  12: always("runningInUserNamespace", "flag"),
});

/** Without what only kubelet and the volume controllers read. */
const node = part({
  1: one("metadata", objectMeta),
  2: one(
    "spec",
    part({
      1: one("podCIDR"),
      3: one("providerID"),
      4: one("unschedulable", "flag"),
      5: list("taints", taint),
      7: list("podCIDRs"),
    }),
  ),
  3: one(
    "status",
    part({
      1: map("capacity", "quantity"),
      2: map("allocatable", "quantity"),
      3: one("phase"),
      4: list("conditions", nodeCondition),
      5: list("addresses", whole({ 1: always("type"), 2: always("address") })),
      7: one("nodeInfo", nodeInfo),
    }),
  ),
});

/** What a resource's objects are in protobuf; `undefined`: they are read as JSON. */
export function messageOf({ group, version, plural }: Resource): Message | undefined {
  return group === "" && version === "v1" && plural === "nodes" ? node : undefined;
}

/** Of a list: its items are read apart. */
export const listMeta: Message = part({
  2: one("resourceVersion"),
  3: one("continue"),
  4: always("remainingItemCount", "number"),
});

/** An object of any kind, for bookmarks. */
export const anyObject: Message = part({ 1: one("metadata", objectMeta) });

const statusCause = whole({ 1: one("reason"), 2: one("message"), 3: one("field") });

/** A refusal. */
export const status: Message = part({
  2: one("status"),
  3: one("message"),
  4: one("reason"),
  5: one("details", part({ 4: list("causes", statusCause), 5: one("retryAfterSeconds", "number") })),
  6: one("code", "number"),
});
