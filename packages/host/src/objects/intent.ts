/** The changes that a decision can ask for on an object. */
import { hash } from "node:crypto";
import type { KubeClient, KubeObject, Patch, Resource } from "@berth/kube";

export type Intent = About & Change;

/** Each change applies only to the observed version of the object. A JSON patch must `test` the version itself. */
export type Change =
  | {
      readonly do: "patch";
      readonly patch: Patch;
      readonly subresource?: string;
      /** Field manager. Default: that of the client. */
      readonly manager?: string;
    }
  /** Server-side apply that takes fields from other managers. Does not create an object again that was deleted. */
  | { readonly do: "apply"; readonly body: KubeObject; readonly manager: string }
  /**
   * Creates the object that the body names (`generateName` is not supported); `on.seen` is `undefined`. When it exists
   * already, Berth looks again after a second.
   */
  | { readonly do: "create"; readonly body: KubeObject }
  | {
      readonly do: "delete";
      /** Default: the server's default for the resource. */
      readonly propagation?: "Orphan" | "Background" | "Foreground";
      /** `uid`: deletes the object whatever changed on it meanwhile. Default: only the observed version. */
      readonly bound?: "uid";
    }
  | { readonly do: "addFinalizer" | "removeFinalizer"; readonly finalizer: string }
  /** Evicts the pod by `policy/v1`. Bound to the uid alone: other fields of a pod may change meanwhile. */
  | { readonly do: "evict" };

export interface About {
  /** A reason constant. */
  readonly reason: string;
  /** What Berth does and why, as text for people. */
  readonly message: string;
  /** Records an Event of this type after the change. Absent: only the log reports it. */
  readonly announce?: "Normal" | "Warning";
  /** Events about the object of the decision, recorded after the change. */
  readonly news?:
    | readonly (Pick<About, "reason" | "message"> & { readonly type: "Normal" | "Warning" })[]
    | undefined;
  /** Default: the object of the decision. */
  readonly on?: Target;
  /** Texts that identify the content. Berth detects contests by them. Default: the body. */
  readonly gives?: readonly string[];
  /** The changed thing as a noun for messages, such as `its pod template`. Default `it`. */
  readonly what?: string;
  /** Advice to the user when the server refuses the change: `allow Berth to patch it`. */
  readonly advice?: string;
  /** Message for a contest. Default `another writer keeps changing it, so it is left alone for a while`. */
  readonly contested?: string;
  /** Called right before the request. Returns a reason not to send it now. */
  readonly unless?: (signal: AbortSignal) => Promise<string | undefined>;
  /** The fallback when the server refuses this intent. */
  readonly orElse?: Intent;
}

/** The part of a client that carries out intents. */
export type WriteClient = Pick<KubeClient, "patch" | "apply" | "delete" | "create">;

/** A target other than the object of the decision. */
export interface Target {
  readonly resource: Resource;
  /** The observed object; only its metadata counts. `undefined`: it does not exist, and the body names it. */
  readonly seen: KubeObject | undefined;
  /** The client of another cluster, which has the target. Berth tells clusters apart by its `server`. */
  readonly via?: WriteClient & Pick<KubeClient, "server">;
}

/** The `gives` of the intent, or its body without the object version. A long text is its hash, as it is remembered. */
export function givenBy(intent: Intent): readonly string[] {
  return textsOf(intent).map((text) => (text.length > MAX_TEXT ? hash("sha256", text, "base64") : text));
}

/** Characters. */
const MAX_TEXT = 256;

function textsOf(intent: Intent): readonly string[] {
  if (intent.gives !== undefined) return intent.gives;
  if (intent.do === "apply" || intent.do === "create") return [JSON.stringify(intent.body)];
  if (intent.do !== "patch") return [intent.do];
  const { type, body } = intent.patch;
  return [JSON.stringify(type === "json" ? body.filter(({ op }) => op !== "test") : body)];
}
