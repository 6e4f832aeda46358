/** What is asked of a server by whom: a Berth without rights, without gates, or that has not read them all yet. */
import { describe, expect, it } from "vitest";
import { gatesOf, setUp } from "./testing/admission-stage.ts";

describe("without gates", () => {
  it.each(["Auto", "Policy", "Off"] as const)(
    "and without rights nothing is watched, and hardly anything asked (%s)",
    async (mode) => {
      await using stage = await setUp({ mode });
      await stage.clock.advance(20 * 60_000);
      expect(stage.requests.filter((it) => it.startsWith("watch"))).toEqual([]);
      expect(stage.requests.length).toBeLessThanOrEqual(10);
    },
  );

  it("what an earlier process has left is deleted, but not before all gates have been read", async () => {
    await using stage = await setUp({ gates: gatesOf([], true), mayRead: true, left: ["berth-gate-net"] });
    await stage.clock.advance(20_000);
    expect(stage.requests.filter((it) => it.startsWith("delete"))).toEqual([]);
    stage.setGates(gatesOf([]));
    await stage.clock.advance(1000);
    expect(stage.requests).toContain("delete mutatingadmissionpolicies");
  });
});

describe("with gates", () => {
  it("a right that is missing to see the policies is said, as they are not written either", async () => {
    await using stage = await setUp({ gates: gatesOf(["net"]) });
    await stage.clock.advance(20_000);
    expect(stage.handle.state()).toMatchObject({ ready: false, reason: "AdmissionFailed" });
    expect(stage.handle.state()?.message).toContain("mutatingadmissionpolicies");
  });

  it("I-5 never claims a policy that is refused, and says within seconds that it is refused or accepted", async () => {
    await using stage = await setUp({ gates: gatesOf(["net"]), mayRead: true });
    const said = new Set<string | undefined>();
    for (let second = 0; second < 12; second++) {
      await stage.clock.advance(1000);
      said.add(stage.handle.state()?.reason);
    }
    expect([...said]).toEqual([undefined, "AdmissionFailed"]);
    expect(stage.handle.state()?.message).toContain("mutatingadmissionpolicies");
    expect(stage.told()).toBe("AdmissionFailed");
    stage.grant();
    await stage.clock.advance(8000);
    expect(stage.told()).toBe("AdmissionByPolicy");
  });

  it("I-1 serves the webhook that another replica, the leader, has fallen back to", async () => {
    await using stage = await setUp({ mode: "Auto", gates: gatesOf(["net"]), leads: false });
    await stage.clock.advance(14_000);
    expect(stage.isDemanded()).toBe(false);
    await stage.clock.advance(1000);
    expect(stage.isDemanded()).toBe(true);
    expect(stage.problems()).toEqual([]);
  });

  it("no right is missed where nothing is to be put on new nodes", async () => {
    await using stage = await setUp({ mode: "Off", gates: gatesOf(["net"]) });
    await stage.clock.advance(20_000);
    expect(stage.handle.state()).toMatchObject({ ready: false, reason: "AdmissionOff" });
    expect(stage.problems()).toEqual([]);
  });
});
