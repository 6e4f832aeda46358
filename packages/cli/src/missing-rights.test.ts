import { ApiError, configMaps, deployments, type KubeClient } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { MissingRights } from "./missing-rights.ts";

const of = { namespace: "a", name: "x" };
const patch = { type: "merge", body: {} } as const;

/** Answers as it is told. */
function aServer(): { readonly client: Parameters<MissingRights["listenTo"]>[0]; refused: boolean } {
  const server = { refused: true };
  const answer = (): Promise<never> =>
    server.refused
      ? Promise.reject(new ApiError({ kind: "forbidden" }, { verb: "patch", resource: "deployments.apps" }))
      : Promise.resolve({} as never);
  const client: Pick<KubeClient, "get" | "patch" | "apply" | "delete"> = {
    get: answer,
    patch: answer,
    apply: answer,
    delete: answer,
  };
  return Object.assign(server, { client });
}

describe("a right to write", () => {
  it("is missing from a refusal on, until the same is allowed, and the refusal is passed on", async () => {
    const server = aServer();
    const rights = new MissingRights();
    const client = rights.listenTo(server.client);
    expect(rights.why(["deployments.apps"])).toBeUndefined();
    await expect(client.patch(deployments, of, patch)).rejects.toThrow(ApiError);
    expect(rights.why(["deployments.apps"])).toMatch(/^patch deployments\.apps: .*refused/);
    expect(rights.why(["configmaps"])).toBeUndefined();
    server.refused = false;
    await client.delete(deployments, of);
    await client.patch(deployments, { ...of, namespace: "b" }, patch);
    expect(rights.why(["deployments.apps"])).toBeDefined();
    await client.apply(deployments, { metadata: of }, { fieldManager: "berth" });
    expect(rights.why(["deployments.apps"])).toBeUndefined();
  });

  it("is not told of without end: whoever makes namespaces does not decide what is remembered", async () => {
    const rights = new MissingRights();
    const client = rights.listenTo(aServer().client);
    const refusal = (namespace: string): Promise<unknown> =>
      client.delete(configMaps, { namespace, name: "x" }).catch(() => undefined);
    await client.patch(deployments, of, patch).catch(() => undefined);
    for (let at = 0; at < 1000; at++) await refusal(`n${at}`);
    expect(rights.why(["deployments.apps"])).toBeUndefined();
    expect(rights.why(["configmaps"])).toBeDefined();
  });
});
