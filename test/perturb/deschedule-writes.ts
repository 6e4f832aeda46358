/** Notes each write that Berth asks for, with what no version of an object shows: the precondition of an eviction. */
import type { KubeClient, KubeObject, Resource } from "@berth/kube";

/** One write of Berth. */
export interface StoryWrite {
  readonly verb: "create" | "replace" | "patch" | "apply" | "delete" | "evict";
  /** `pods`. */
  readonly resource: string;
  /** Local, once it is part of a story. */
  readonly name: string;
  /** The precondition of an eviction. */
  readonly uid?: string | undefined;
  /** The step that had begun last. */
  readonly step: string;
  /** 1 for the first start of Berth. */
  readonly life: number;
  /** Absent while there is no answer. */
  answer?: "accepted" | "refused";
}

export type AskedWrite = Pick<StoryWrite, "verb" | "resource" | "name" | "uid">;

const VERBS: ReadonlySet<string> = new Set(["create", "replace", "patch", "apply", "delete"]);

type Method = (resource: Resource, about: About, ...more: readonly unknown[]) => Promise<unknown>;

/** An object, the name of one, or an eviction. */
interface About extends KubeObject {
  readonly name?: string;
  readonly deleteOptions?: { readonly preconditions?: { readonly uid?: string } };
}

/** @param note is told of each write when it is sent; what it returns gets the answer. */
export function noteWrites(
  client: KubeClient,
  note: (write: AskedWrite) => Pick<StoryWrite, "answer">,
): KubeClient {
  return new Proxy(client, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      const method = value.bind(target) as Method;
      if (!VERBS.has(String(key))) return method;
      const noted: Method = async (resource, about, ...more) => {
        const uid = about.deleteOptions?.preconditions?.uid;
        const verb = isEviction(more) ? "evict" : (key as StoryWrite["verb"]);
        const name = about.name ?? about.metadata?.name ?? "";
        const entry = note({ verb, resource: resource.plural, name, uid });
        try {
          const answer = await method(resource, about, ...more);
          entry.answer = "accepted";
          return answer;
        } catch (error) {
          entry.answer = "refused";
          throw error;
        }
      };
      return noted;
    },
  });
}

function isEviction(more: readonly unknown[]): boolean {
  return more.some(
    (one) => (one as { readonly subresource?: string } | undefined)?.subresource === "eviction",
  );
}
