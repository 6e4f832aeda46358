import { type Container, type Deployment, deployments, type KubeClient } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  keyOf,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
  type Running,
} from "@berth/runtime";
import { InformerSet, pick } from "../../informer-set.ts";
import { ownEntry } from "../../managed-fields.ts";
import type { Footprint } from "../footprint.ts";
import type { NeedPlace } from "../needs.ts";
import { waitManager } from "./wait.ts";

export interface WaitWatchOptions {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly cluster: ClusterName;
  /** Whose applies are kept. */
  readonly installation: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  /** The Deployment has to be looked at. Must not throw. */
  readonly onDeployment: (key: ObjectKey) => void;
}

const ALL = "all";
const BY_NAMESPACE = "namespace";
const BY_CLAIM = "claim";

/**
 * The Deployments of the cluster, read while a footprint has their pods wait by server-side apply, and of them what that is
 * decided by. Their own labels do not say which pods they make, so the API server cannot select them. Once read they stay
 * so, for containers may have to be taken off again.
 */
export class WaitWatch implements Component {
  readonly name = "footprint-deployments";
  readonly #options: WaitWatchOptions;
  readonly #informers: InformerSet<Deployment>;

  constructor(options: WaitWatchOptions) {
    this.#options = options;
    const tell = (object: Deployment): void => options.onDeployment(keyOf(options.cluster, object));
    this.#informers = new InformerSet<Deployment>({
      ...options,
      name: this.name,
      resource: deployments,
      onChange: () => undefined,
      // A version that says nothing new as well: an apply that met another one waits for it.
      onVersion: ({ object }) => tell(object),
      onSynced: () => this.lookAgain(),
    });
  }

  /** The footprints in force from now on. At any time, also before `start`. */
  want(footprints: readonly Footprint[]): void {
    const isNeeded = footprints.some(({ wait }) => wait?.inject === "ServerSideApply");
    const indexes = { [BY_NAMESPACE]: namespaceOf, [BY_CLAIM]: claimsOf };
    const project = (deployment: Deployment): Deployment =>
      slimDeployment(deployment, this.#options.installation);
    if (isNeeded) this.#informers.want([{ key: ALL, scope: {}, project, indexes }]);
    this.lookAgain();
  }

  get(key: ObjectKey): Deployment | undefined {
    return this.#informers.get(ALL)?.get(key);
  }

  /** What it is told by whether pods need the agent has changed: the Deployments that may make such pods are looked at. */
  lookAgain({ namespace, claim }: NeedPlace = {}): void {
    const informer = this.#informers.get(ALL);
    if (informer === undefined) return;
    const found = (): Iterable<Deployment> => {
      if (namespace === undefined) return informer.list();
      if (claim === undefined) return informer.byIndex(BY_NAMESPACE, namespace);
      return informer.byIndex(BY_CLAIM, `${namespace}/${claim}`);
    };
    for (const object of found()) this.#options.onDeployment(keyOf(this.#options.cluster, object));
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#informers.start(signal);
  }

  /** Why they cannot be read. A lost connection is no problem for a minute. */
  problem(): string | undefined {
    return this.#informers.problem();
  }
}

function namespaceOf({ metadata }: Deployment): readonly string[] {
  return [metadata?.namespace ?? ""];
}

/** Claims of ephemeral volumes are called after pods that are still to be made. */
function claimsOf({ metadata, spec }: Deployment): readonly string[] {
  const claims = (spec?.template.spec?.volumes ?? []).flatMap(
    (it) => it.persistentVolumeClaim?.claimName ?? [],
  );
  return [...new Set(claims)].map((claim) => `${metadata?.namespace ?? ""}/${claim}`);
}

/** Of the fields that somebody manages only what Berth has applied. */
function slimDeployment({ metadata, spec }: Deployment, installation: string): Deployment {
  const template = spec?.template;
  const pod = template?.spec;
  const applied = ownEntry(metadata?.managedFields ?? [], waitManager(installation));
  return {
    metadata: {
      ...pick(metadata ?? {}, [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "deletionTimestamp",
        "ownerReferences",
      ]),
      ...(applied && { managedFields: [applied] }),
    },
    spec: {
      selector: {},
      template: {
        metadata: pick(template?.metadata ?? {}, ["labels"]),
        ...(pod && {
          spec: {
            ...pick(pod, ["volumes", "resources"]),
            containers: pod.containers.map((it) => pick(it, ["name", "resources"])),
            ...(pod.initContainers && { initContainers: pod.initContainers.map(slimInit) }),
          },
        }),
      },
    },
  };
}

function slimInit(container: Container): Container {
  return pick(container, ["name", "image", "command", "env", "resources", "securityContext"]);
}
