/** The oracle of the fleet's stories finds each thing that it is there for, and nothing in what is right. */
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { type KubeObject, pods, type Resource } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { resourceClaims } from "../../packages/fleet/src/api/quota.ts";
import {
  aCondition,
  aDeployment,
  anInstance,
  aTemplate,
  gated,
  type State,
} from "../../packages/fleet/src/deployment/testing/fixtures.ts";
import type { StoryWrite } from "./deschedule-writes.ts";
import { forbiddenOfFleet } from "./fleet-verdict.ts";
import { WrittenHistory } from "./written-history.ts";

const GOING = "2026-01-01T00:00:00Z";

class Told extends WrittenHistory {
  readonly #writes: StoryWrite[] = [];
  readonly #ended = new Set<string>();
  #deployment: WorkloadDeployment = aDeployment();

  /** The Workload asks for it, and the deployment follows. */
  wants(min: number, image = "app:1", isAsked = true): this {
    const generation = (this.#deployment.metadata?.generation ?? 0) + 1;
    const template = aTemplate(image);
    this.#deployment = aDeployment({ min, template, metadata: { generation } });
    const { scaleSettings } = this.#deployment.spec ?? { scaleSettings: { minReplicas: min } };
    const placements = [{ name: "us", cityCodes: ["DFW"], scaleSettings }];
    const workload = { metadata: { name: "w" }, spec: { template, placements } };
    if (isAsked) this.note(workloads, { name: "w", object: workload, by: "story" });
    return this.note(workloadDeployments, { name: "w-us-dfw", object: this.#deployment, by: "controller" });
  }

  /** Of the template that is wanted now. */
  instance(ordinal: number, state: State = "R"): this {
    return this.#put(anInstance(this.#deployment, ordinal, state));
  }

  /** Of the same name as the one before. */
  another(ordinal: number): this {
    const { metadata, ...rest } = anInstance(this.#deployment, ordinal);
    return this.#put({ ...rest, metadata: { ...metadata, uid: `another-${ordinal}` } });
  }

  waiting(ordinal: number): this {
    return this.#put(gated(anInstance(this.#deployment, ordinal, "N"), "Quota"));
  }

  /** Its deletion begins. */
  deleted(ordinal: number): this {
    const last = this.#last(instances, `w-us-dfw-${ordinal}`) as Instance;
    return this.#put({ ...last, metadata: { ...last.metadata, deletionTimestamp: GOING } });
  }

  gone(resource: Resource, name: string): this {
    return this.note(resource, {
      name,
      object: this.#last(resource, name),
      by: "controller",
      gone: "DELETED",
    });
  }

  claim(name: string, ordinal: number, isGranted: boolean): this {
    const labels = { "compute.datumapis.com/instance-uid": `uid-${ordinal}` };
    const status = { conditions: [aCondition("Granted", isGranted ? "True" : "False")] };
    const object: KubeObject & { status: unknown } = { metadata: { name, labels, uid: name }, status };
    return this.note(resourceClaims, { name, object, by: "controller" });
  }

  pod(ordinal: number): this {
    const name = `w-us-dfw-${ordinal}`;
    const owner = { apiVersion: "v1", kind: "Instance", name, uid: `uid-${ordinal}`, controller: true };
    const status = { conditions: [aCondition("Ready", "True")] };
    const metadata = { name, uid: `pod-${ordinal}`, ownerReferences: [owner] };
    return this.note(pods, {
      name,
      object: { metadata, spec: { nodeName: "n" }, status } as KubeObject,
      by: "controller",
    });
  }

  ends(ordinal: number): this {
    this.#ended.add(`pod-${ordinal}`);
    return this.gone(pods, `w-us-dfw-${ordinal}`);
  }

  writes(step: string, life = 1): this {
    this.#writes.push({ verb: "patch", resource: "instances", name: "w-us-dfw-0", step, life });
    return this;
  }

  get problems(): string {
    const trial = { steps: this.steps, rest: "rest", hasQuota: true };
    return forbiddenOfFleet(this.entries, { ...trial, writes: this.#writes, ended: this.#ended }).join("\n");
  }

  #put(object: Instance): this {
    const name = object.metadata?.name ?? "";
    return this.note(instances, { name, object, by: "controller" });
  }

  #last(resource: Resource, name: string): KubeObject {
    return this.entries.findLast((it) => it.resource === resource && it.name === name)?.object ?? {};
  }
}

const two = (): Told => new Told().wants(2).instance(0).instance(1);
const rolling = (): Told => two().wants(2, "app:2").deleted(1).gone(instances, "w-us-dfw-1");
const granted = (): Told => new Told().wants(1).waiting(0).claim("c", 0, true);
const running = (): Told => new Told().wants(1).instance(0).pod(0).claim("c", 0, true).wants(0).deleted(0);
const RIGHT = /^$/;
const LEFT = /was left behind by w-us-dfw-0/;

describe("a Workload", () => {
  it.each<readonly [string, Told, RegExp]>([
    ["may be rolled one by one", rolling().instance(1).deleted(0), RIGHT],
    [
      "is not rolled at once",
      rolling().instance(1, "N").deleted(0),
      /w-us-dfw-0 was taken down with w-us-dfw-1/,
    ],
    ["loses what it no longer wants at once", two().wants(0).deleted(1).deleted(0), RIGHT],
    ["keeps what it wants", two().deleted(1), /w-us-dfw-1 was deleted and was right/],
    ["keeps what it wants after a roll", rolling().another(1).deleted(1), /was deleted and was right/],
    ["is followed", two().wants(3), RIGHT],
    ["is not followed to what it never asked for", two().wants(3, "x", false), /what no Workload asks for/],
    ["shows an Instance as down with its pod", two().instance(1, "N"), RIGHT],
    ["shows none as down whose pod is Ready", two().pod(1).instance(1, "N"), /was shown as down/],
    ["opens a gate after a grant", granted().instance(0, "N"), RIGHT],
    ["opens none without", new Told().wants(1).waiting(0).instance(0, "N"), /gate without a grant/],
    [
      "opens none after a denial",
      new Told().wants(1).waiting(0).claim("c", 0, false).instance(0, "N"),
      /w-us-dfw-0 lost its gate without a grant of its own/,
    ],
    [
      "opens none for the grant of another",
      granted().waiting(1).instance(1, "N"),
      /w-us-dfw-1 lost its gate/,
    ],
    ["has one claim for an Instance", granted().claim("d", 0, false), /d is the second claim/],
    ["leaves nothing", running().ends(0).gone(resourceClaims, "c").gone(instances, "w-us-dfw-0"), RIGHT],
    ["leaves no claim", running().ends(0).gone(instances, "w-us-dfw-0"), LEFT],
    ["leaves no pod", running().gone(resourceClaims, "c").gone(instances, "w-us-dfw-0"), LEFT],
    ["ends no pod by force", new Told().pod(0).gone(pods, "w-us-dfw-0"), /was deleted by force/],
    ["may be written while something happens", new Told().writes("start").writes("rest", 2), RIGHT],
    ["is not written at rest", new Told().writes("rest"), /written though nothing had happened/],
  ])("%s", (_, { problems }, expected) => expect(problems).toMatch(expected));
});
