/** The observations of a gate over a list of objects, as the informers would give it. */

import type { Selector } from "@berth/host";
import type { DaemonSet, Pod } from "@berth/kube";
import { matchesSelector, selectorText } from "../../node/selector.ts";
import { compileGates } from "../compile.ts";
import { type StartupGateSpec, startupGateSpec } from "../document.ts";
import type { Gate, GateObservations, PodQuery } from "../gate.ts";

export interface World {
  readonly pods?: readonly Pod[];
  readonly daemonSets?: readonly DaemonSet[];
  /** Selectors of queries beside those of the DaemonSets. */
  readonly selectors?: readonly Selector[];
  /** Queries that have not been read. */
  readonly isUnread?: (query: PodQuery) => boolean;
  /** `undefined`: DaemonSets have not been read. Default: they have. */
  readonly daemonSetsRead?: boolean;
  readonly labelsSettled?: boolean | undefined;
}

/** @throws Error for a query that belongs to no selector of the world: an informer that no selector asks for. */
export function sightOf(world: World): GateObservations {
  const { pods = [], daemonSets = [], isUnread = () => false, daemonSetsRead = true } = world;
  const selectors = new Map(
    [...(world.selectors ?? []), ...daemonSets.flatMap(({ spec }) => spec?.selector ?? [])].map((it) => [
      selectorText(it),
      it,
    ]),
  );
  return {
    pods(query, node) {
      const selector = selectors.get(query.labelSelector);
      if (selector === undefined) throw new Error(`no such query: ${query.labelSelector}`);
      if (isUnread(query)) return undefined;
      return pods.filter(
        ({ metadata, spec }) =>
          spec?.nodeName === node &&
          (query.namespace === undefined || metadata?.namespace === query.namespace) &&
          matchesSelector(selector, metadata?.labels),
      );
    },
    daemonSet(namespace, name) {
      if (!daemonSetsRead) return undefined;
      return (
        daemonSets.find(({ metadata }) => metadata?.namespace === namespace && metadata.name === name) ?? null
      );
    },
    labelsSettled: () => world.labelsSettled,
  };
}

/** What a document says of the signals; the rest is filled in by the schema. */
export type SignalsInput = {
  readonly [K in keyof StartupGateSpec["signals"]]?: StartupGateSpec["signals"][K] extends readonly (infer T)[]
    ? readonly Partial<T>[]
    : StartupGateSpec["signals"][K];
};

/** A gate as its document has it, past the schema. */
export function gateWith(signals: SignalsInput, spec: Partial<StartupGateSpec> = {}): Gate {
  const document = { name: "g", spec: startupGateSpec.parse({ minimumHold: "1s", ...spec, signals }) };
  const [gate] = compileGates({ sources: [{ source: "config", documents: [document] }] }).gates;
  if (gate === undefined) throw new Error("the gate has a fault");
  return gate;
}
