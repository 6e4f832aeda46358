import { LeftOut } from "@berth/host";
import { ApiError, type KubeClient, type KubeObject, type List, type Resource } from "@berth/kube";
import { compileFootprints, type Footprints, nodeFootprintSpec } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { distinctHolds, eachOwner } from "./owners.ts";

/** Footprints by name, each with a hold of this version and finalizer. */
function holding(holds: Readonly<Record<string, readonly [version: string, finalizer: string]>>): Footprints {
  const documents = Object.entries(holds).map(([name, [version, finalizer]]) => {
    const spec = nodeFootprintSpec.parse({
      workloads: [{ podSelector: { matchLabels: { app: name } } }],
      node: { label: { key: `example.com/${name}` } },
      group: { by: "OwnerUID", owner: { group: "example.com", kind: "Pool" } },
      hold: {
        resource: { group: "example.com", version, resource: "pools" },
        finalizer,
        ownedResources: [{ group: "apps", version: "v1", resource: "deployments" }],
      },
    });
    return { name, spec };
  });
  return compileFootprints({ sources: [{ source: "config", documents }] });
}

const TWO = holding({
  a: ["v1beta1", "example.com/a"],
  b: ["v1", "example.com/a"],
  c: ["v1", "example.com/c"],
});

describe("the owners that are held", () => {
  it("are looked for once for each finalizer, whatever the versions", () => {
    expect(distinctHolds(TWO).map(({ finalizer, versions }) => [finalizer, versions])).toEqual([
      ["example.com/a", ["v1beta1", "v1"]],
      ["example.com/c", ["v1"]],
    ]);
  });

  it("are each told once, by a version that the server has", async () => {
    const pages = async function* (resource: Resource): AsyncIterable<List<KubeObject>> {
      await Promise.resolve();
      if (resource.version === "v1beta1")
        throw new ApiError({ kind: "notFound" }, { verb: "list", resource: resource.plural });
      yield { items: [{ metadata: { namespace: "shop", name: "p" } }], metadata: {} };
    };
    const { signal } = new AbortController();
    const run = { client: { pages } as unknown as KubeClient, leftOut: new LeftOut(), signal };
    const told: string[] = [];
    for (const hold of distinctHolds(TWO))
      await eachOwner(hold, run, ({ text, resource }) =>
        told.push(`${text} ${resource.version} ${hold.finalizer}`),
      );
    expect(told).toEqual([
      "pools.example.com shop/p v1 example.com/a",
      "pools.example.com shop/p v1 example.com/c",
    ]);
  });
});
