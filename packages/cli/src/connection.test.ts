import path from "node:path";
import { describe, expect, it } from "vitest";
import type { Environment } from "./command-deps.ts";
import { type ClusterChoice, type ConnectionOptions, chooseCluster } from "./connection.ts";
import { testFolder } from "./testing/harness.ts";

const kubeconfig = (server: string): string =>
  [
    "apiVersion: v1",
    "kind: Config",
    "current-context: main",
    `clusters: [{name: c, cluster: {server: "${server}"}}, {name: d, cluster: {server: "${server}/other"}}]`,
    "contexts: [{name: main, context: {cluster: c, user: u}}, {name: other, context: {cluster: d, user: u}}]",
    "users: [{name: u, user: {token: t}}]",
    "",
  ].join("\n");

/** With every source there can be, each with a server of its own. */
async function chooseOfAll(options: ConnectionOptions, environment: Environment): Promise<ClusterChoice> {
  await using folder = await testFolder({
    flag: kubeconfig("https://flag"),
    env: kubeconfig("https://env"),
    "home/.kube/config": kubeconfig("https://home"),
    "pod/ca.crt": "ca",
    "pod/namespace": "pod-namespace\n",
    "pod/token": "t",
  });
  const deps = { environment, folder: folder.path, home: path.join(folder.path, "home") };
  return await chooseCluster(options, deps, path.join(folder.path, "pod"));
}

describe("A-P13 chooseCluster: flag > KUBECONFIG > pod > home", () => {
  const LIST = `none${path.delimiter}env`;
  const pod = { KUBERNETES_SERVICE_HOST: "pod", KUBERNETES_SERVICE_PORT: "443" };
  it.each([
    ["flag", { kubeconfig: "flag" }, { KUBECONFIG: "env", ...pod }, "https://flag"],
    ["KUBECONFIG", {}, { KUBECONFIG: "env", ...pod }, "https://env"],
    ["KUBECONFIG as a list with a missing file", {}, { KUBECONFIG: LIST }, "https://env"],
    ["the pod", {}, pod, "https://pod:443"],
    ["the pod, for empty values", { kubeconfig: "" }, { KUBECONFIG: "", ...pod }, "https://pod:443"],
    ["home", {}, {}, "https://home"],
    ["home rather than the pod for a context", { context: "other" }, pod, "https://home/other"],
    ["--master over that of the file", { master: "https://m" }, { KUBECONFIG: "env" }, "https://m"],
  ])("%s", async (_name, options, environment, server) => {
    expect((await chooseOfAll(options, environment)).connect.server).toBe(server);
  });

  it("knows when it is in a pod, and its namespace", async () => {
    const choice = await chooseOfAll({}, pod);
    expect([choice.inCluster, choice.namespace]).toEqual([true, "pod-namespace"]);
  });

  it("has the proxy of the environment for a kubeconfig, and none for the pod", async () => {
    const HTTPS_PROXY = "http://proxy.corp:3128/";
    expect((await chooseOfAll({}, { HTTPS_PROXY })).connect.proxy).toBe(HTTPS_PROXY);
    expect((await chooseOfAll({}, { HTTPS_PROXY, NO_PROXY: "home" })).connect.proxy).toBeUndefined();
    expect((await chooseOfAll({}, { HTTPS_PROXY, ...pod })).connect.proxy).toBeUndefined();
  });

  it.each<[string | undefined, number | undefined]>([
    [undefined, undefined],
    ["0", undefined],
    ["5s", 5_000],
    ["1m30s", 90_000],
  ])("bounds each request by --request-timeout %s", async (requestTimeout, timeoutMs) => {
    const { connect } = await chooseOfAll(requestTimeout === undefined ? {} : { requestTimeout }, {});
    expect(connect.timeoutMs).toBe(timeoutMs);
  });

  it.each(["5", "0s", "soon", ""])("refuses --request-timeout %j", async (requestTimeout) => {
    await expect(chooseOfAll({ requestTimeout }, {})).rejects.toMatchObject({ exitCode: 2 });
  });

  it("acts for the user and groups of --as, and takes no groups alone", async () => {
    const { connect } = await chooseOfAll({ as: "jane", asGroup: ["dev"] }, {});
    expect(connect.impersonate).toEqual({ user: "jane", groups: ["dev"] });
    expect((await chooseOfAll({}, {})).connect.impersonate).toBeUndefined();
    await expect(chooseOfAll({ asGroup: ["dev"] }, {})).rejects.toMatchObject({ exitCode: 2 });
  });

  it("says what to do when there is none", async () => {
    await using folder = await testFolder();
    const deps = { environment: {}, folder: folder.path, home: folder.path };
    await expect(chooseCluster({}, deps)).rejects.toMatchObject({ exitCode: 4 });
  });

  it("goes without a credential when only --master is given", async () => {
    await using folder = await testFolder();
    const deps = { environment: {}, folder: folder.path, home: folder.path };
    const { connect } = await chooseCluster({ master: "https://m" }, deps);
    expect([connect.server, await connect.credential.material()]).toEqual(["https://m", {}]);
  });
});
