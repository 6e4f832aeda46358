import type { Toleration } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { PodVerdict } from "./pod-view.ts";
import { appendTolerations, coverOf, missingTolerations, POD_TOLERATIONS } from "./tolerations.ts";

const said = { reason: "ArchitecturesResolved", message: "", images: [] } as const;
const fits = (...architectures: readonly string[]): PodVerdict => ({
  kind: "fits",
  os: "linux",
  architectures,
  ...said,
});
const any: PodVerdict = { kind: "any", ...said };
const key = "supported-arch";
const effect = "NoSchedule";
const of = (value: string): Toleration => ({ key, value, effect });

describe("the tolerations that a pod lacks", () => {
  it("A-P4 one for each architecture, byte for byte as archaware-controller writes it", () => {
    expect(JSON.stringify(missingTolerations(undefined, [key], fits("amd64")))).toBe(
      '[{"key":"supported-arch","value":"amd64","effect":"NoSchedule"}]',
    );
    expect(missingTolerations([], [key], fits("amd64", "arm64"))).toEqual([of("amd64"), of("arm64")]);
  });

  it.each<readonly [string, Toleration, readonly string[]]>([
    ["A-P7 that one", of("amd64"), ["arm64"]],
    ["that one in other words", { ...of("amd64"), operator: "Equal" }, ["arm64"]],
    ["that one for every effect", { key, value: "amd64" }, ["arm64"]],
    ["all of them", { key, operator: "Exists" }, []],
    ["everything", { operator: "Exists" }, []],
    ["another effect", { ...of("amd64"), effect: "NoExecute" }, ["amd64", "arm64"]],
    ["another key", { ...of("amd64"), key: "kubernetes.io/arch" }, ["amd64", "arm64"]],
  ])("%s stands", (_, standing, missing) => {
    const values = missingTolerations([standing], [key], fits("amd64", "arm64")).map(({ value }) => value);
    expect(values).toEqual(missing);
  });

  it("are for every value where nothing restricts it", () => {
    const exists = { key, operator: "Exists", effect };
    expect(missingTolerations([of("amd64")], [key], any)).toEqual([exists]);
    expect(missingTolerations([exists], [key], any)).toEqual([]);
    expect(missingTolerations(undefined, [], any)).toEqual([]);
  });

  it("are for each key in force, and none without a verdict", () => {
    expect(missingTolerations([of("amd64")], ["kubernetes.io/arch", key], fits("amd64"))).toEqual([
      { key: "kubernetes.io/arch", value: "amd64", effect },
    ]);
    for (const kind of ["impossible", "waiting", "unresolvable"] as const) {
      expect(missingTolerations([], [key], { kind, ...said })).toEqual([]);
    }
  });

  it("keep nodes from being tainted, unless it is understood that the pod can run nowhere", () => {
    const uncovered = (verdict: PodVerdict, ...standing: readonly Toleration[]): readonly string[] =>
      coverOf(standing, ["other", key], verdict).uncovered;
    expect(uncovered(fits("amd64"), of("amd64"))).toEqual(["other"]);
    expect(uncovered(fits("amd64"), { operator: "Exists" })).toEqual([]);
    expect(uncovered(any, of("amd64"))).toEqual(["other", key]);
    expect(uncovered({ kind: "waiting", ...said }, of("amd64"))).toEqual(["other", key]);
    expect(uncovered({ kind: "waiting", ...said }, { key, operator: "Exists" })).toEqual(["other"]);
    expect(uncovered({ kind: "impossible", ...said })).toEqual([]);
    expect(uncovered({ kind: "unresolvable", ...said })).toEqual([]);
  });

  it("are appended", () => {
    const [a, b] = [of("amd64"), of("arm64")];
    const list = [{ op: "add", path: POD_TOLERATIONS, value: [a, b] }];
    expect(appendTolerations(undefined, [a, b], POD_TOLERATIONS)).toEqual(list);
    expect(appendTolerations(null, [a, b], POD_TOLERATIONS)).toEqual(list);
    expect(appendTolerations([], [a, b], POD_TOLERATIONS)).toEqual(list);
    expect(appendTolerations([{ key: "x" }], [a, b], POD_TOLERATIONS)).toEqual([
      { op: "add", path: "/spec/tolerations/-", value: a },
      { op: "add", path: "/spec/tolerations/-", value: b },
    ]);
    expect(appendTolerations([{ key: "x" }], [], POD_TOLERATIONS)).toEqual([]);
  });
});
