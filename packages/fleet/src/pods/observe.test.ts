import type { ContainerState, ContainerStatus, Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { observePod } from "./observe.ts";
import { anInstance, createdMs, podOf } from "./testing/instances.ts";

const instance = anInstance();
const status = (state: ContainerState, more: Partial<ContainerStatus> = {}): ContainerStatus => ({
  name: "app",
  image: "registry.test/app:1",
  imageID: "",
  ready: false,
  restartCount: 0,
  state,
  ...more,
});
const waiting = (reason: string, message?: string): ContainerState => ({
  waiting: { reason, ...(message && { message }) },
});
const exit = (exitCode: number, reason = "Error", message?: string): ContainerState => ({
  terminated: { exitCode, reason, ...(message && { message }) },
});
const on = (containers: readonly ContainerStatus[], more: Pod["status"] = {}): Pod =>
  podOf(instance, { phase: "Running", containerStatuses: containers, ...more }, "n1");
const condition = (type: string, is: "True" | "False", message?: string) => ({
  conditions: [
    { type: "Initialized", status: "True" as const, message: "of another condition" },
    { type, status: is, ...(message && { message }) },
  ],
});
const runningSince = (seconds: number): ContainerState => ({
  running: { startedAt: new Date(createdMs - seconds * 1000).toISOString() },
});

/** `Programmed status/reason, Available status/reason message` */
const summary = (pod: Pod): string => {
  const [programmed, available] = observePod(pod, createdMs).conditions;
  expect([programmed?.type, available?.type]).toEqual(["Programmed", "Available"]);
  return `${programmed?.status}/${programmed?.reason}, ${available?.status}/${available?.reason} ${available?.message}`;
};
const PROVISIONING = "False/ProgrammingInProgress, False/Provisioning";
const BOUND = "True/Programmed, False/Provisioning";
const CRASHING = "True/Programmed, False/InstanceCrashing";
const BACK_OFF = 'Back-off pulling image "registry.test/app:1": ErrImagePull: not found';

describe("what a pod says about its Instance", () => {
  it.each<[string, Pod, string]>([
    ["that is new", podOf(instance), `${PROVISIONING} The pod waits for the scheduler`],
    [
      "that no node takes",
      podOf(instance, condition("PodScheduled", "False", "0/3 nodes are available: 3 Insufficient cpu.")),
      `${PROVISIONING} 0/3 nodes are available: 3 Insufficient cpu.`,
    ],
    ["that was bound", podOf(instance, { phase: "Pending" }, "n1"), `${BOUND} The pod is starting`],
    [
      "whose container is being made",
      on([status(waiting("ContainerCreating"))]),
      `${BOUND} The pod is starting`,
    ],
    [
      "that runs and is not ready",
      on([status({ running: {} })], condition("Ready", "False", "containers with unready status: [app]")),
      `${BOUND} The pod is not ready: containers with unready status: [app]`,
    ],
    [
      "that is ready",
      on([status({ running: {} })], condition("Ready", "True")),
      "True/Programmed, True/Available The pod is ready",
    ],
    [
      "that is ready after one restart",
      on([status(runningSince(1), { restartCount: 1 })], condition("Ready", "True")),
      "True/Programmed, True/Available The pod is ready",
    ],
    [
      "that is ready a while after its last restart",
      on([status(runningSince(60), { restartCount: 9 })], condition("Ready", "True")),
      "True/Programmed, True/Available The pod is ready",
    ],
    [
      "that is ready between two crashes",
      on([status(runningSince(59), { restartCount: 2, lastState: exit(1) })], condition("Ready", "True")),
      `${CRASHING} Container app exited with code 1 after 2 restarts`,
    ],
    ["that exited", on([status(exit(1))]), `${CRASHING} Container app exited with code 1`],
    [
      "that exited and waits",
      on([
        status(waiting("CrashLoopBackOff", "back-off 10s"), {
          restartCount: 1,
          lastState: exit(0, "Completed"),
        }),
      ]),
      `${CRASHING} Container app exited with code 0 after 1 restart`,
    ],
    [
      "that has too little memory",
      on([status(waiting("CrashLoopBackOff"), { restartCount: 3, lastState: exit(137, "OOMKilled") })]),
      `${CRASHING} Container app exited with code 137 (OOMKilled) after 3 restarts`,
    ],
    [
      "whose program is missing",
      on([
        status(waiting("CrashLoopBackOff"), {
          restartCount: 1,
          lastState: exit(128, "StartError", "no such file\n"),
        }),
      ]),
      `${CRASHING} Container app exited with code 128 (StartError) after 1 restart: no such file`,
    ],
    [
      "that crashes for an unknown cause",
      on([status(waiting("CrashLoopBackOff"))]),
      `${CRASHING} Container app crashes`,
    ],
  ])("%s", (_, pod, expected) => {
    expect(summary(pod)).toBe(expected);
  });

  it.each<[string, string, string]>([
    ["ErrImagePull", "not found", "not found"],
    ["ImagePullBackOff", BACK_OFF, "not found"],
    ["ImagePullBackOff", 'Back-off pulling image "x"', 'Back-off pulling image "x"'],
    ["InvalidImageName", "invalid reference format", "invalid reference format"],
    ["ErrImageNeverPull", "", "ErrImageNeverPull"],
  ])("R12 has no image: %s %s", (reason, message, shown) => {
    const fault = "False/ImageUnavailable";
    expect(summary(on([status(waiting(reason, message))]))).toBe(
      `${fault}, ${fault} Container app has no image registry.test/app:1: ${shown}`,
    );
  });

  it.each(["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])(
    "has a wrong configuration: %s",
    (reason) => {
      const fault = "False/ConfigurationError";
      expect(summary(on([status(waiting(reason, 'secret "keys" not found'))]))).toBe(
        `${fault}, ${fault} Container app cannot start: secret "keys" not found`,
      );
    },
  );

  it("names the first container that fails", () => {
    const pod = on([
      status({ running: {} }),
      status(exit(2), { name: "b" }),
      status(waiting("ErrImagePull"), { name: "c" }),
    ]);
    expect(summary(pod)).toBe(`${CRASHING} Container b exited with code 2`);
  });

  it("looks again when a container that was restarted may have become stable", () => {
    const observed = (seconds: number) =>
      observePod(on([status(runningSince(seconds), { restartCount: 2 })]), createdMs).recheckAfterMs;
    expect([observed(59), observed(0), observed(-30), observed(60)]).toEqual([
      1000,
      60_000,
      60_000,
      undefined,
    ]);
  });

  it("has the address of the pod once there is one", () => {
    expect(observePod(on([], { podIP: "10.0.0.1" }), createdMs).networkIP).toBe("10.0.0.1");
    expect(observePod(on([]), createdMs)).not.toHaveProperty("networkIP");
  });

  it("has at most 1,024 characters of what a kubelet or a container writes", () => {
    const { conditions } = observePod(on([status(exit(1, "Error", "😀".repeat(10_000)))]), createdMs);
    for (const { message } of conditions) expect(message.length).toBeLessThanOrEqual(1024);
    expect(conditions[1]?.message.isWellFormed()).toBe(true);
  });
});
