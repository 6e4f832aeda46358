import { ApiError, type ApiFailure } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { describeFailure, describeRefusal, grantCommand } from "./failure-text.ts";

const request = { verb: "list", resource: "nodes" } as const;
const failed = (failure: ApiFailure, cause?: Error): ApiError => new ApiError(failure, request, { cause });

describe("describeFailure", () => {
  it("names verb and resource of a missing right", () => {
    const { message, exitCode } = describeFailure(failed({ kind: "forbidden" }));
    expect(message).toContain('verb "list" on "nodes"');
    expect(exitCode).toBe(exitCodes.cluster);
  });

  it("tells the system's own words once, on one line", () => {
    const cause = new Error("outer", {
      cause: new Error("connect ECONNREFUSED 127.0.0.1:6443\nat somewhere"),
    });
    const { message } = describeFailure(failed({ kind: "unreachable" }, cause));
    expect(message).toContain("(connect ECONNREFUSED 127.0.0.1:6443);");
    expect(message).not.toContain("\n");
  });

  it("keeps what a command has to say, and its exit code", () => {
    expect(describeFailure(new CommandError("no", exitCodes.usage))).toEqual({ message: "no", exitCode: 2 });
  });

  it("shows where a fault of our own is", () => {
    const { message, exitCode } = describeFailure(new TypeError("x is undefined"));
    expect(message).toContain("failure-text.test.ts");
    expect(exitCode).toBe(exitCodes.failed);
  });
});

it("describeRefusal names a subresource and a namespace", () => {
  const error = new ApiError(
    { kind: "forbidden" },
    { verb: "patch", resource: "pods", subresource: "status", namespace: "ns", name: "p" },
  );
  expect(describeRefusal(error)).toContain('verb "patch" on "pods/status" in namespace "ns"');
});

describe("I-10 the command that grants a permission", () => {
  const refused = (user: string): ApiError =>
    new ApiError(
      { kind: "forbidden" },
      { verb: "patch", resource: "nodes", name: "n" },
      { message: `nodes "n" is forbidden: User "${user}" cannot patch resource "nodes"` },
    );
  const ROLE = "kubectl create clusterrole berth-patch-nodes --verb=patch --resource=nodes";
  const BINDING = "kubectl create clusterrolebinding berth-patch-nodes --clusterrole=berth-patch-nodes";

  it.each([
    ["system:serviceaccount:kube-system:auto-labeller", "--serviceaccount=kube-system:auto-labeller"],
    ["jane@example.com", "--user='jane@example.com'"],
    ["o'hara", `--user='o'\\''hara'`],
  ])("names %s", (user, flag) => {
    expect(grantCommand(refused(user))).toBe(`${ROLE} && ${BINDING} ${flag}`);
  });
});
