import { isApiError, type KubeClient, namespaces } from "@berth/kube";
import { findCondition } from "@berth/runtime";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import {
  locations,
  networkBindings,
  networkContexts,
  networks,
  subnetClaims,
  subnets,
} from "../api/networking.ts";
import { type ResourceClaim, requestTypes, resourceClaims } from "../api/quota.ts";
import { installCrds, networkingCrds, quotaCrds } from "./fixture-crds.ts";
import { grantClaims } from "./grant-claims.ts";
import { networkHands } from "./network-hands.ts";

let client: KubeClient;
beforeAll(async () => {
  ({ client } = await sharedTestCluster());
  await installCrds(client, [...networkingCrds, ...quotaCrds]);
});

async function aNamespace(name: string): Promise<string> {
  await client.create(namespaces, { metadata: { name } });
  return name;
}

describe("claims", () => {
  const project = { apiGroup: "resourcemanager.miloapis.com", kind: "Project", name: "web" };
  const aClaim = (namespace: string, name: string): ResourceClaim => ({
    metadata: { namespace, name },
    spec: {
      consumerRef: project,
      resourceRef: project,
      requests: [
        { resourceType: requestTypes.instances, amount: 1 },
        { resourceType: requestTypes.vcpus, amount: 1000 },
      ],
    },
  });
  const granted = async (namespace: string, name: string): Promise<string | undefined> => {
    const claim = await client.get(resourceClaims, { namespace, name });
    return findCondition(claim.status?.conditions, "Granted")?.reason;
  };

  it("wait with a condition of 1970 until the quota service looks, and do not change", async () => {
    const namespace = await aNamespace("claims-new");
    await client.create(resourceClaims, aClaim(namespace, "a"));
    const { status } = await client.get(resourceClaims, { namespace, name: "a" });
    expect(status?.conditions).toMatchObject([
      {
        type: "Granted",
        status: "False",
        reason: "PendingEvaluation",
        lastTransitionTime: "1970-01-01T00:00:00Z",
      },
    ]);
    const body = { spec: { consumerRef: { name: "other" } } };
    const error = await client
      .patch(resourceClaims, { namespace, name: "a" }, { type: "merge", body })
      .catch((reason: unknown) => reason);
    expect(isApiError(error, "invalid")).toBe(true);
    expect(String(error)).toContain("spec is immutable");
    await client.delete(resourceClaims, { namespace, name: "a" });
  });

  it("are granted within the budget, and the others when it rises or a claim goes", async () => {
    const namespace = await aNamespace("claims-budget");
    await using quota = await grantClaims(client, { budget: 1 });
    const expectReason = (name: string, reason: string): Promise<void> =>
      eventually(async () => expect(await granted(namespace, name)).toBe(reason));
    await client.create(resourceClaims, aClaim(namespace, "a"));
    await expectReason("a", "QuotaAvailable");
    await client.create(resourceClaims, aClaim(namespace, "b"));
    await expectReason("b", "QuotaExceeded");
    quota.setBudget(2);
    await expectReason("b", "QuotaAvailable");
    await client.create(resourceClaims, aClaim(namespace, "c"));
    await expectReason("c", "QuotaExceeded");
    await client.delete(resourceClaims, { namespace, name: "a" });
    await expectReason("c", "QuotaAvailable");
  });

  it("keep a grant when the quota service starts again, and wait during its pause", async () => {
    const namespace = await aNamespace("claims-restart");
    await client.create(resourceClaims, aClaim(namespace, "a"));
    {
      await using _first = await grantClaims(client, { budget: 100 });
      await eventually(async () => expect(await granted(namespace, "a")).toBe("QuotaAvailable"));
    }
    const held = (await client.list(resourceClaims)).items.length;
    await using quota = await grantClaims(client, { budget: held + 1 });
    quota.pause();
    await client.create(resourceClaims, aClaim(namespace, "b"));
    quota.setBudget(held);
    quota.resume();
    await eventually(async () => expect(await granted(namespace, "b")).toBe("QuotaExceeded"));
    expect(await granted(namespace, "a")).toBe("QuotaAvailable");
  });
});

describe("networks", () => {
  const reason = async (namespace: string, name: string) => {
    const binding = await client.get(networkBindings, { namespace, name });
    return findCondition(binding.status?.conditions, "Ready");
  };

  it("become Ready from the binding to the subnet, or fail with a message", async () => {
    const namespace = await aNamespace("networks");
    const location = { namespace, name: "dfw" };
    await client.create(locations, {
      metadata: location,
      spec: {
        locationClassName: "self-managed",
        topology: { "topology.datum.net/city-code": "DFW" },
        provider: {},
      },
    });
    const network = { name: "default" };
    await client.create(networks, { metadata: { ...network, namespace }, spec: { ipam: { mode: "Auto" } } });
    await using hands = await networkHands(client);
    hands.fail("bad", "no range is free");
    for (const name of ["good", "bad"])
      await client.create(networkBindings, { metadata: { namespace, name }, spec: { network, location } });

    await eventually(async () => expect((await reason(namespace, "good"))?.status).toBe("True"));
    const { status } = await client.get(networkBindings, { namespace, name: "good" });
    expect(status?.networkContextRef).toEqual({ namespace, name: "default-dfw" });
    await eventually(async () => {
      const context = await client.get(networkContexts, { namespace, name: "default-dfw" });
      expect(findCondition(context.status?.conditions, "Ready")?.status).toBe("True");
    });
    await eventually(async () =>
      expect(await reason(namespace, "bad")).toMatchObject({
        status: "False",
        reason: "NetworkFailedToCreate",
        message: "no range is free",
      }),
    );

    await client.create(subnetClaims, {
      metadata: { namespace, name: "default-dfw-0" },
      spec: {
        subnetClass: "private",
        ipFamily: "IPv4",
        networkContext: { name: "default-dfw" },
        location,
      },
    });
    await eventually(async () => {
      const claim = await client.get(subnetClaims, { namespace, name: "default-dfw-0" });
      const name = claim.status?.subnetRef?.name ?? "none";
      const subnet = await client.get(subnets, { namespace, name });
      expect(findCondition(subnet.status?.conditions, "Ready")?.status).toBe("True");
      expect(subnet.status?.startAddress).toBe("10.128.0.0");
    });
  });
});
