/** The container by which a pod waits for the agent of its node. Pure and total: pods are whatever somebody sent. */
import type { Container, JsonPatchOperation } from "@berth/kube";
import { waitContainer } from "../../api/wait-container.ts";
import { listField, textField } from "../../node/untrusted-json.ts";
import type { Footprint } from "../footprint.ts";

/** The containers of footprints, the first by name where two are called alike. */
export function waitContainers(footprints: readonly Footprint[]): readonly Container[] {
  const containers = new Map<string, Container>();
  for (const { wait } of footprints)
    if (wait && !containers.has(wait.containerName)) containers.set(wait.containerName, waitContainer(wait));
  return [...containers.values()];
}

const INIT = "/spec/initContainers";

/**
 * Puts the containers before all other init containers of a pod, without those whose name is taken: by a container of any
 * sort, for names are unique in a pod.
 */
export function injectWait(spec: unknown, containers: readonly Container[]): readonly JsonPatchOperation[] {
  const taken = containerNames(spec);
  const missing = containers.filter(({ name }) => !taken.has(name));
  if (missing.length === 0) return [];
  if (listField(spec, "initContainers").length === 0) return [{ op: "add", path: INIT, value: missing }];
  return missing.map((value, at) => ({ op: "add", path: `${INIT}/${at}`, value }));
}

function containerNames(spec: unknown): ReadonlySet<string> {
  const lists = ["initContainers", "containers", "ephemeralContainers"];
  return new Set(lists.flatMap((list) => listField(spec, list).map((it) => textField(it, "name"))));
}
