/**
 * The stories of a hub: a deployment goes to its cell, what runs there comes back, and both end while the cell is away. And
 * a deployment moves to another cell.
 */
import type { PerturbationStory, Step } from "@berth/testcluster";
import { DRAIN, type HubActor, type HubStory, hubStory, REMOVAL, REST } from "./hub-scene.ts";

/** Two Instances, another image, one Instance, and none. */
function federate(actor: HubActor): readonly Step[] {
  const isSettled = (count: number): boolean => actor.isSettled(count);
  return [
    { name: "workload-comes", run: () => actor.addWorkload(2), over: () => isSettled(2) },
    { name: "image-changes", run: () => actor.image("app:2"), over: () => isSettled(2) },
    { name: "one-goes", run: () => actor.scale(1), over: () => isSettled(1) },
    { name: REST, needsSettled: true, run: () => actor.annotate() },
    {
      name: REMOVAL,
      needsSettled: true,
      run: () => actor.removeWorkload(),
      over: () => actor.isGone("everywhere"),
    },
  ];
}

/** An Instance of the cell fails, recovers, goes and comes back. Other programs delete what is shown of it. */
function collect(actor: HubActor): readonly Step[] {
  const isShown = (count: number): boolean => actor.shown().every((it) => it === count);
  return [
    { name: "workload-comes", run: () => actor.addWorkload(2), over: () => actor.isSettled(2) },
    {
      name: "instance-fails",
      needsSettled: true,
      run: () => actor.failInstance(1, true),
      over: () => actor.isShownReady(1, false),
    },
    {
      name: "instance-recovers",
      run: () => actor.failInstance(1, false),
      over: () => actor.isShownReady(1, true),
    },
    { name: "instance-goes", run: () => actor.removeInstance(1), over: () => isShown(1) },
    { name: "instance-comes-back", run: () => actor.remakeInstance(1), over: () => isShown(2) },
    {
      name: "copy-is-deleted",
      needsSettled: true,
      run: () => actor.removeShown(0, "hub"),
      over: () => isShown(2),
    },
    {
      name: "shown-is-deleted",
      needsSettled: true,
      run: () => actor.removeShown(0, "project"),
      over: () => isShown(2),
    },
    { name: REST, needsSettled: true, run: () => actor.annotate() },
  ];
}

/** The Workload changes and ends while its cell does not answer. */
function deleteWhileAway(actor: HubActor): readonly Step[] {
  return [
    { name: "workload-comes", run: () => actor.addWorkload(2), over: () => actor.isSettled(2) },
    {
      name: "cell-goes",
      needsSettled: true,
      run: () => Promise.resolve(actor.setAway(true)),
      over: () => actor.isMarkedStale(),
    },
    { name: "image-changes", needsSettled: true, run: () => actor.image("app:2") },
    { name: REMOVAL, needsSettled: true, run: () => actor.removeWorkload(), over: () => actor.isGone("hub") },
    {
      name: "cell-comes-back",
      needsSettled: true,
      run: () => Promise.resolve(actor.setAway(false)),
      over: () => actor.isGone("everywhere"),
    },
  ];
}

/** The cell is drained, and the Workload ends in the other one. */
function move(actor: HubActor): readonly Step[] {
  return [
    { name: "workload-comes", run: () => actor.addWorkload(2), over: () => actor.isSettled(2) },
    { name: DRAIN, needsSettled: true, run: () => actor.drain(), over: () => actor.isDrained(2) },
    {
      name: REMOVAL,
      needsSettled: true,
      run: () => actor.removeWorkload(),
      over: () => actor.isGone("everywhere"),
    },
  ];
}

const ONE_CELL: readonly Pick<HubStory, "name" | "cells" | "steps">[] = [
  { name: "federate", cells: ["cell"], steps: federate },
  { name: "collect", cells: ["cell"], steps: collect },
  { name: "delete-while-away", cells: ["cell"], steps: deleteWhileAway },
];
const MOVE = { name: "move", cells: ["cell", "other-cell"], steps: move } as const;

/** Each of them with each of its clusters disturbed. */
export const hubStories: readonly PerturbationStory[] = [...ONE_CELL, MOVE].flatMap((story) =>
  (["hub", ...story.cells] as const).map((plane) => hubStory({ ...story, plane })),
);
