/** What a real API server makes of an admission server: its patches, its certificate, its errors and its absence. */
import { configMaps } from "@berth/kube";
import { sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { failureOf, register } from "../testing/registered-webhook.ts";
import type { AdmissionHandler } from "./review-exchange.ts";

const cluster = await sharedTestCluster();

const label: AdmissionHandler = ({ operation }) =>
  operation === "CREATE"
    ? {
        allowed: true,
        patch: [{ op: "add", path: "/metadata/labels", value: { seen: "yes" } }],
        warnings: ["labelled"],
      }
    : { allowed: true };

describe("a webhook of the API server", () => {
  it("has its patch stored, and is told what is done to what", async () => {
    await using webhook = await register(cluster, "Fail", label);
    const { namespace } = webhook;
    expect((await webhook.create("a")).metadata?.labels).toEqual({ seen: "yes" });
    expect((await webhook.create("b", true)).metadata?.labels).toEqual({ seen: "yes" });
    const body = { data: { a: "1" } };
    await cluster.client.patch(configMaps, { namespace, name: "a" }, { type: "merge", body });
    await cluster.client.delete(configMaps, { namespace, name: "a" });
    const common = {
      kind: { group: "", version: "v1", kind: "ConfigMap" },
      resource: { group: "", version: "v1", resource: "configmaps" },
      namespace,
      userInfo: { username: "admin" },
    };
    expect(webhook.asked).toMatchObject([
      { ...common, name: "a", operation: "CREATE", dryRun: false, object: { metadata: { name: "a" } } },
      { ...common, name: "b", operation: "CREATE", dryRun: true },
      { ...common, name: "a", operation: "UPDATE", object: body, oldObject: { metadata: { name: "a" } } },
      { ...common, name: "a", operation: "DELETE", oldObject: body },
    ]);
    expect(webhook.asked.map(({ object }) => object === undefined)).toEqual([false, false, false, true]);
  });

  it("that names faults makes the object invalid, and the client learns each of them", async () => {
    const causes = [
      { reason: "FieldValueRequired", message: "Required value", field: "data.city" },
      {
        reason: "FieldValueInvalid",
        message: 'Invalid value: "x": must be a number',
        field: "data.replicas",
      },
    ];
    await using webhook = await register(cluster, "Fail", () => ({ allowed: false, causes }));
    const creation = webhook.create("faulty");
    expect(await failureOf(creation)).toEqual({ kind: "invalid", causes });
    await expect(creation).rejects.toThrow(
      'denied the request: ConfigMap "faulty" is invalid: [data.city: Required value, data.replicas: Invalid value',
    );
  });

  it("that fails or is not there lets objects through with Ignore, and keeps them out with Fail", async () => {
    const fails: AdmissionHandler = ({ name }) => {
      if (name === "broken") throw new Error("no");
      return { allowed: name !== "denied", message: "not this one" };
    };
    await using lenient = await register(cluster, "Ignore", fails);
    await using strict = await register(cluster, "Fail", fails);
    expect((await lenient.create("broken")).metadata?.name).toBe("broken");
    expect((await failureOf(strict.create("broken"))).kind).toBe("serverError");
    expect((await failureOf(lenient.create("denied"))).kind).toBe("forbidden");
    await expect(strict.create("denied")).rejects.toThrow("denied the request: not this one");
    await Promise.all([lenient.server, strict.server].map((server) => server[Symbol.asyncDispose]()));
    expect((await lenient.create("alone")).metadata?.name).toBe("alone");
    expect((await failureOf(strict.create("alone"))).kind).toBe("serverError");
  });
});
