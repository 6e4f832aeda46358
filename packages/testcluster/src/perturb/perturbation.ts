/** What a perturbation does to the requests and events of the controller's first life. */
import type { KubeObject, Resource } from "@berth/kube";
import { errorEvent } from "../fault/actions.ts";
import type { Interceptor, ObservedEvent, ObservedRequest } from "../fault/interceptor.ts";
import { isStatusOnly } from "./history.ts";
import { nameOfEvent, nameOfRequest, nameOfSubject, Occurrences, type Point, type ToLocal } from "./point.ts";

/** What the first life of the controller asked for and was told, each with its occurrence. */
export interface Footprint {
  readonly requests: string[];
  readonly events: string[];
}

/** A watch that stands still before an event. */
export interface Pause {
  readonly resource: Resource;
  /** Local. */
  readonly name: string;
  readonly namespace: string | undefined;
  readonly type: string;
  /** Of the version that the event tells. */
  readonly resourceVersion: string | undefined;
  /** How often the story and the harness had changed the object when the watch stopped. */
  readonly changesBefore: number;
  /** Goes on with an error that makes the controller list anew. */
  end(): void;
}

export interface Perturbation extends Interceptor {
  readonly footprint: Footprint;
  /** The point has come. */
  readonly reached: boolean;
  /** While a watch stands still. */
  readonly pause: Pause | undefined;
}

export interface PerturbationOptions {
  /** Absent: the undisturbed telling. */
  readonly point?: Point;
  readonly resources: readonly Resource[];
  readonly toLocal: ToLocal;
  readonly sentinelResource: Resource;
  /** Those whose status the controller does not go by. */
  readonly ownStatusOf: readonly Resource[];
  /** Requests about these are no points. */
  readonly unperturbed: readonly Resource[];
  readonly isSentinel: (resource: Resource, name: string) => boolean;
  readonly changesOf: (resource: Resource, name: string) => number;
  /** Ends the life of the controller at once. */
  readonly kill: () => void;
  readonly onChange: () => void;
}

export function createPerturbation(options: PerturbationOptions): Perturbation {
  const { point, resources, toLocal, isSentinel, onChange } = options;
  const footprint: Footprint = { requests: [], events: [] };
  const occurrences = new Occurrences();
  /** By name: the last version of an object that a watch has told, of those in `ownStatusOf`. */
  const told = new Map<string, KubeObject>();
  let reached = false;
  let pause: Pause | undefined;
  const resourceOf = ({ group, resource }: ObservedRequest): Resource | undefined =>
    resources.find((one) => one.group === group && one.plural === resource);

  function isUnperturbed({ group, resource }: ObservedRequest): boolean {
    return options.unperturbed.some((one) => one.group === group && one.plural === resource);
  }

  /** Is it about the sentinel? That is the business of the harness. */
  function isNoise(request: ObservedRequest, name: string): boolean {
    const resource = request.resource === "events" ? options.sentinelResource : resourceOf(request);
    return resource !== undefined && isSentinel(resource, toLocal(name));
  }

  /** Is it about nothing but a status that the controller has written? Told by what the watch had said before. */
  function isOwnStatus({ request, objectName, object }: ObservedEvent): boolean {
    const resource = resourceOf(request);
    if (resource === undefined || !options.ownStatusOf.includes(resource)) return false;
    const before = told.get(objectName);
    told.set(objectName, object as KubeObject);
    return before !== undefined && isStatusOnly(before, object as KubeObject);
  }

  async function holdBefore({ request, type, objectName, object }: ObservedEvent): Promise<void> {
    const resource = resourceOf(request);
    if (resource === undefined) throw new Error(`${request.resource} is no resource of the story`);
    const name = toLocal(objectName);
    const { promise, resolve } = Promise.withResolvers<void>();
    request.signal.addEventListener("abort", () => resolve(), { once: true });
    const { resourceVersion, namespace } = (object as KubeObject).metadata ?? {};
    const changesBefore = options.changesOf(resource, name);
    pause = { resource, name, namespace, type, resourceVersion, changesBefore, end: resolve };
    onChange();
    await promise;
    pause = undefined;
    onChange();
  }

  return {
    footprint,
    get reached() {
      return reached;
    },
    get pause() {
      return pause;
    },
    async request(request, forward) {
      if (isUnperturbed(request) || isNoise(request, nameOfSubject(request))) return forward();
      const name = occurrences.next(nameOfRequest(request, toLocal));
      footprint.requests.push(name);
      const isIt =
        (point?.pattern === "kill-before" || point?.pattern === "kill-after") && point.request === name;
      if (!isIt || reached) return forward();
      reached = true;
      // The reply is dropped: its body, when it has one, ends with the connection.
      if (point.pattern === "kill-after") await forward();
      options.kill();
      return { kind: "cut", scope: "connection" };
    },
    async event(event, next) {
      const { request, type, objectName } = event;
      const isChange = type === "ADDED" || type === "MODIFIED" || type === "DELETED";
      if (!isChange || toLocal(objectName) === "" || isNoise(request, objectName)) return next();
      if (isUnperturbed(request) || isOwnStatus(event)) return next();
      const name = occurrences.next(nameOfEvent(event, toLocal));
      footprint.events.push(name);
      if (reached || point?.pattern !== "paused" || point.event !== name) return next();
      reached = true;
      await holdBefore(event);
      return errorEvent(410).event(event, next);
    },
  };
}
