/** The names of perturbations: the same in every telling, so that one can be replayed alone. */
import { nameOfResource } from "@berth/kube";
import type { ObservedEvent, ObservedRequest } from "../fault/interceptor.ts";
import type { Version } from "./history.ts";

/** The patterns of Sieve (Sun et al., OSDI 22): intermediate state, stale state, unobserved state. */
export type Pattern = "kill-before" | "kill-after" | "stale" | "paused";

/** Every kind of perturbation there is. */
export const patterns: readonly Pattern[] = ["kill-before", "kill-after", "stale", "paused"];

/** One perturbation of one telling. */
export type Point =
  /** The controller is killed when this request of it arrives, before or after the server carries it out. */
  | { readonly pattern: "kill-before" | "kill-after"; readonly request: string }
  /** After this step it is killed, and started again on a view in which `version` is the last that has happened. */
  | { readonly pattern: "stale"; readonly step: string; readonly version: string }
  /** Its watch stops before this event until the object has changed again; then it has to list anew. */
  | { readonly pattern: "paused"; readonly event: string };

/** Before the first version of the run. */
export const NOTHING = "nothing";

/** As printed, and as `--point` takes it: `kill-before patch nodes n1 #2`. */
export function formatPoint(point: Point): string {
  if (point.pattern === "stale") return `stale after ${point.step} as of ${point.version}`;
  return `${point.pattern} ${point.pattern === "paused" ? point.event : point.request}`;
}

/** Tells names apart that are used many times: `x`, `x`, `y` become `x #1`, `x #2`, `y #1`. */
export class Occurrences {
  readonly #seen = new Map<string, number>();

  next(name: string): string {
    const count = (this.#seen.get(name) ?? 0) + 1;
    this.#seen.set(name, count);
    return `${name} #${count}`;
  }
}

/** A name of the run without what makes it unlike those of other runs; a name of anything else is `""`. */
export type ToLocal = (name: string) => string;

/** `patch nodes/status n1`, `create events.events.k8s.io`: what a request is about, whenever it comes. */
export function nameOfRequest(request: ObservedRequest, toLocal: ToLocal): string {
  const { verb, group, resource, subresource, method, path } = request;
  if (resource === "") return `${method.toLowerCase()} ${path.split("?")[0] ?? ""}`;
  const collection = group === "" ? resource : `${resource}.${group}`;
  const what = subresource === "" ? collection : `${collection}/${subresource}`;
  return [verb, what, toLocal(nameOfSubject(request))].filter((part) => part !== "").join(" ");
}

/** The object that a request is about; of an Event, which is named after it and at random, the one it regards. */
export function nameOfSubject({ resource, name }: ObservedRequest): string {
  return resource === "events" ? name.replace(/\.[0-9a-f]+$/, "") : name;
}

/** `MODIFIED nodes n1`. */
export function nameOfEvent({ type, request, objectName }: ObservedEvent, toLocal: ToLocal): string {
  const collection = request.group === "" ? request.resource : `${request.resource}.${request.group}`;
  return `${type} ${collection} ${toLocal(objectName)}`;
}

/** `MODIFIED nodes n1`. */
export function nameOfVersion({ type, resource, object }: Version, toLocal: ToLocal): string {
  return `${type} ${nameOfResource(resource)} ${toLocal(object.metadata?.name ?? "")}`;
}
