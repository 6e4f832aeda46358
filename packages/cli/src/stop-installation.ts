/** Stops the Deployment of an installation, because a Berth that runs sets its marks again. */
import { baseName, Progress, toLabelSelector } from "@berth/host";
import { deployments, isApiError, type LabelSelector, pods } from "@berth/kube";
import { berthAs } from "@berth/placement";
import { sleep } from "@berth/runtime";
import type { Session } from "./session.ts";

/** How often it looks whether the pods are gone. Milliseconds. */
const LOOK_MS = 500;

/** Scales it to 0 and resolves once it has no pods. Without a Deployment there is nothing to stop. */
export async function stopInstallation(session: Session): Promise<void> {
  const { client, clock, signal, stderr, installation } = session;
  const { name: namespace } = await session.stateNamespace();
  const of = { namespace, name: baseName(berthAs(installation)) };
  const body = { spec: { replicas: 0 } };
  let selector: LabelSelector | undefined;
  try {
    selector = (await client.patch(deployments, of, { type: "merge", body }, { signal })).spec?.selector;
  } catch (error) {
    if (isApiError(error, "notFound")) return;
    throw error;
  }
  const labelSelector = toLabelSelector(selector?.matchLabels ?? {});
  using progress = new Progress(stderr, clock, `stopping deployment ${namespace}/${of.name}`);
  do {
    const { items } = await client.list(pods, { namespace, labelSelector, signal });
    if (items.length === 0) break;
    progress.update(`waiting for ${items.length} pods of ${namespace}/${of.name} to end`);
  } while (await sleep(clock, LOOK_MS, signal));
  signal.throwIfAborted();
}
