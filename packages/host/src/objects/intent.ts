/** What is to be done to an object, as a decision says it. */
import type { KubeObject, Patch, Resource } from "@berth/kube";

export type Intent = About & Change;

/** Each is bound to the version of the object that was looked at; operations of a JSON patch have to `test` it themselves. */
export type Change =
  | {
      readonly do: "patch";
      readonly patch: Patch;
      readonly subresource?: string;
      /** Field manager. Default `berth`. */
      readonly manager?: string;
    }
  /** Server-side apply: fields that others own are taken from them. What was deleted meanwhile is not made anew. */
  | { readonly do: "apply"; readonly body: KubeObject; readonly manager: string }
  | { readonly do: "delete"; readonly propagation: "Orphan" | "Background" | "Foreground" }
  | { readonly do: "addFinalizer" | "removeFinalizer"; readonly finalizer: string };

export interface About {
  /** A reason constant: why. */
  readonly reason: string;
  /** What is done and why, for people. */
  readonly message: string;
  /** Tells it as an Event of this type once it is done. Default: the log tells it. */
  readonly announce?: "Normal" | "Warning";
  /** Default: the object that was decided about. */
  readonly on?: Target;
  /** What it gives, as texts that are equal for the same. Who takes one of them away is in a fight. Default: its body. */
  readonly gives?: readonly string[];
  /** What is changed, `its pod template`. Default `it`. */
  readonly what?: string;
  /** What a person can do when it is refused: `allow Berth to patch it`. */
  readonly advice?: string;
  /** What is told of a fight. Default `somebody keeps changing it: it is left alone for a while`. */
  readonly contested?: string;
  /** Asked right before it is sent. Answers why it must not be sent now. */
  readonly unless?: (signal: AbortSignal) => Promise<string | undefined>;
  /** Tried when the server refuses this one. */
  readonly orElse?: Intent;
}

/** Another object than the one that was decided about. */
export interface Target {
  readonly resource: Resource;
  /** As it was looked at; only its metadata counts. `undefined`: there is none, and it is named by what is applied. */
  readonly seen: KubeObject | undefined;
}

/** What its `gives` say, or its body without the versions it is bound to. */
export function givenBy(intent: Intent): readonly string[] {
  if (intent.gives !== undefined) return intent.gives;
  if (intent.do === "apply") return [JSON.stringify(intent.body)];
  if (intent.do !== "patch") return [intent.do];
  const { type, body } = intent.patch;
  return [JSON.stringify(type === "json" ? body.filter(({ op }) => op !== "test") : body)];
}
