/** Berth on the cluster: how it is installed, which replicas are ready, and what they write. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { leases, type Pod, pods } from "@berth/kube";
import { expect, isReady, nodeOf, type Stage, until } from "./stage.ts";

export const NAMESPACE = "berth-system";
/** Of `documents/values.yaml`. */
export const TOLERATION_SECONDS = 10;

const CHART = join(import.meta.dirname, "../../charts/berth");

/** @returns what was seen. */
export async function installBerth(stage: Stage): Promise<string> {
  const values = join(import.meta.dirname, "documents/values.yaml");
  const own = ["--namespace", NAMESPACE, "--create-namespace"];
  await stage.helm(["install", "berth", CHART, ...own, "--values", values]);
  const hosts = await twoReady(stage);
  stage.say(`   its replicas leave a lost node after ${TOLERATION_SECONDS} s instead of 300 s`);
  return `two replicas are ready, on ${hosts.join(" and ")}`;
}

export async function readyReplicas({ client }: Pick<Stage, "client">): Promise<readonly Pod[]> {
  return (await client.list(pods, { namespace: NAMESPACE })).items.filter(isReady);
}

/** Waits for ready replicas on two nodes. @returns their names. */
export function twoReady(stage: Stage, seconds?: number): Promise<readonly string[]> {
  const check = async (): Promise<readonly string[]> => {
    const hosts = [...new Set((await readyReplicas(stage)).map(nodeOf))];
    expect(hosts.length === 2, `replicas are ready on ${hosts.join(", ") || "no node"}`);
    return hosts;
  };
  return until(stage, check, seconds);
}

/** The replica that holds Berth's Lease. */
export async function leader({ client }: Pick<Stage, "client">): Promise<Pod> {
  const { spec } = await client.get(leases, { namespace: NAMESPACE, name: "berth" });
  const { items } = await client.list(pods, { namespace: NAMESPACE });
  const holder = items.find(({ metadata }) => spec?.holderIdentity?.startsWith(`${metadata?.name}_`));
  expect(holder, `no pod is called as the holder of the Lease, ${spec?.holderIdentity}`);
  return holder;
}

/** One line of the audit log, as far as it is read. */
interface AuditLine {
  readonly verb: string;
  readonly stageTimestamp: string;
  readonly user: { readonly username: string; readonly extra?: Readonly<Record<string, readonly string[]>> };
  readonly objectRef?: { readonly resource: string; readonly apiGroup?: string; readonly name?: string };
  readonly responseStatus: { readonly code: number };
}

interface Write {
  readonly pod: string;
  /** Such as `nodes/node-1`. */
  readonly object: string;
  readonly at: number;
}

const ACCOUNT = `system:serviceaccount:${NAMESPACE}:berth`;

/** Of all accounts of Berth: those that a hub has elsewhere begin with the name of its own. */
async function linesOfBerth({ auditLog }: Pick<Stage, "auditLog">): Promise<readonly AuditLine[]> {
  const lines = (await readFile(auditLog, "utf8")).split("\n").filter((line) => line.endsWith("}"));
  return lines.filter((line) => line.includes(`"${ACCOUNT}`)).map((line) => JSON.parse(line) as AuditLine);
}

/** What its accounts asked for and may not do: `403 create pods/web`. */
export async function refusedToBerth(stage: Pick<Stage, "auditLog">): Promise<readonly string[]> {
  return (await linesOfBerth(stage))
    .filter(({ responseStatus }) => [401, 403].includes(responseStatus.code))
    .map(({ verb, objectRef, responseStatus }) => {
      const { resource, name = "" } = objectRef ?? {};
      return `${responseStatus.code} ${verb} ${resource}/${name}`;
    });
}

/** What replicas of Berth wrote, in the order in which the API server finished it. Questions about rights are no writes. */
export async function writesOfBerth(stage: Pick<Stage, "auditLog">): Promise<readonly Write[]> {
  return (await linesOfBerth(stage))
    .filter(({ user }) => user.username === ACCOUNT)
    .filter(
      ({ verb, responseStatus }) => /^(create|update|patch|delete)/.test(verb) && responseStatus.code < 300,
    )
    .filter(({ objectRef }) => !objectRef?.apiGroup?.startsWith("auth"))
    .map(({ user, objectRef, stageTimestamp }) => ({
      pod: user.extra?.["authentication.kubernetes.io/pod-name"]?.[0] ?? "",
      object: `${objectRef?.resource}/${objectRef?.name ?? ""}`,
      at: Date.parse(stageTimestamp),
    }));
}
