import { describe, expect, it } from "vitest";
import { normalizeArguments } from "./arguments.ts";
import { commandLineOf, createSilentProgram } from "./program.ts";

const line = commandLineOf(createSilentProgram({ all: [], optional: [] }));
const normal = (text: string): readonly [string, string] => {
  const { arguments: words, form } = normalizeArguments(text === "" ? [] : text.split(" "), line);
  return [words.join(" "), form];
};

describe("the original form (contract L-P14)", () => {
  it.each([
    ["-label-dir x", "run --label-dir x"],
    ["-label-dir=x", "run --label-dir=x"],
    ["--label-dir x", "run --label-dir x"],
    ["-kubeconfig=y", "run --kubeconfig=y"],
    ["-kubeconfig y -label-dir x", "run --kubeconfig y --label-dir x"],
    ["-master https://10.0.0.1:6443 -label-dir x", "run --master https://10.0.0.1:6443 --label-dir x"],
    ["-label-dir plan", "run --label-dir plan"],
    ["-label-dir -", "run --label-dir -"],
    ["--leader-elect -label-dir x", "run --leader-elect --label-dir x"],
  ])("berth %s", (given, expected) => {
    expect(normal(given)).toEqual([expected, "original"]);
  });

  it.each([
    [
      "--leader-elect --server-config=/config/config.yaml --enable-cell-controllers",
      "run --leader-elect --server-config=/config/config.yaml --enable-cell-controllers",
    ],
    [
      "--leader-elect=true --health-probe-bind-address=:8081 --server-config=a --federation-kubeconfig= --federation-context= --enable-management-controllers=false --enable-cell-controllers=true --feature-gates=NetworkingIntegration=false",
      "run --leader-elect --health-probe-bind-address=:8081 --server-config=a --federation-kubeconfig= --federation-context= --enable-cell-controllers --feature-gates=NetworkingIntegration=false",
    ],
    ["-kubeconfig k -server-config a", "run --kubeconfig k --server-config a"],
    ["--enable-cell-controllers", "run --enable-cell-controllers"],
    ["--enable-management-controllers", "run --enable-management-controllers"],
    ["--server-config plan", "run --server-config plan"],
    ["manifests --server-config a", "manifests --server-config a"],
  ])("A24 needs no label folder after berth %s", (given, expected) => {
    expect(normal(given)).toEqual([expected, "command"]);
  });

  it.each([
    ["", "--help"],
    ["--server-config a --help", "--server-config a --help"],
    ["--leader-elect", "--leader-elect"],
    ["-o json", "-o json"],
    ["-- -label-dir x", "-- -label-dir x"],
  ])("I-7 is not taken from berth %s, which has none of its flags", (given, expected) => {
    expect(normal(given)).toEqual([expected, "command"]);
  });
});

describe("the form with a command", () => {
  it.each([
    ["run -label-dir x", "run --label-dir x"],
    ["-kubeconfig y plan -label-dir x", "plan --kubeconfig y --label-dir x"],
    ["--kubeconfig=y explain node n1", "explain --kubeconfig=y node n1"],
    ["-o json plan", "plan -o json"],
    ["plan -o json", "plan -o json"],
    ["-help", "--help"],
    ["-h", "-h"],
    ["--help", "--help"],
    ["run -help", "run --help"],
    ["help run", "help run"],
    ["frobnicate --label-dir x", "frobnicate --label-dir x"],
    ["run -- -kubeconfig", "run -- -kubeconfig"],
  ])("berth %s", (given, expected) => {
    expect(normal(given)).toEqual([expected, "command"]);
  });
});

describe("booleans as Go's flag package reads them", () => {
  it.each([
    ["run --leader-elect=true", "run --leader-elect"],
    ["run -leader-elect=1", "run --leader-elect"],
    ["run --leader-elect=false", "run"],
    ["run --leader-elect --leader-elect=F", "run"],
    ["run --leader-elect=0 --leader-elect", "run --leader-elect"],
    ["run --leader-elect=perhaps", "run --leader-elect=perhaps"],
  ])("berth %s", (given, expected) => {
    expect(normal(given)[0]).toBe(expected);
  });
});
