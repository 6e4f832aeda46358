import { namespaces, secrets } from "@berth/kube";
import { sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { startFaultRegistry } from "../../../registry/src/testing/fault-registry.ts";
import { exitCodes } from "../exit-codes.ts";
import { cli, testFolder } from "../testing/harness.ts";
import { registriesDocument } from "../testing/registries.ts";

const PASSWORD = "correct-horse-battery";

describe("berth image inspect --pull-secret", () => {
  it("reads with the credentials of Secrets of the cluster, and tells which it could not read", async () => {
    const cluster = await sharedTestCluster();
    const namespace = "image-inspect";
    await cluster.client.create(namespaces, { metadata: { name: namespace } });
    await using registry = await startFaultRegistry({
      auth: { scheme: "token", users: { team: PASSWORD } },
    });
    registry.index("team/app", "1", ["linux/amd64"]);
    const config = JSON.stringify({ auths: { [registry.host]: { username: "team", password: PASSWORD } } });
    await cluster.client.create(
      secrets,
      {
        metadata: { name: "regcred", namespace },
        type: "kubernetes.io/dockerconfigjson",
        data: { ".dockerconfigjson": Buffer.from(config).toString("base64") },
      },
      { namespace },
    );
    await using folder = await testFolder({
      config: cluster.kubeconfig(),
      "berth.json": registriesDocument(registry),
    });
    const inspect = (...pullSecrets: readonly string[]): ReturnType<typeof cli> => {
      const options = pullSecrets.flatMap((name) => ["--pull-secret", `${namespace}/${name}`]);
      const args = [
        "image",
        "inspect",
        "--kubeconfig",
        "config",
        "--config",
        "berth.json",
        ...options,
        `${registry.host}/team/app:1`,
      ];
      return cli(args, { folder: folder.path });
    };
    const good = await inspect("missing", "regcred");
    expect(good.code).toBe(exitCodes.done);
    expect(good.stdout).toContain("amd64");
    expect(good.stderr).toBe(`the pull secret ${namespace}/missing does not exist\n`);
    const without = await inspect("missing");
    expect(without.code).toBe(exitCodes.failed);
    expect(without.stderr).toContain("team/app:1 cannot be read");
    const said = [good, without].map(({ stdout, stderr }) => stdout + stderr).join("");
    expect(said).not.toContain(PASSWORD);
  });
});
