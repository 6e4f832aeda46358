/** The stories of a hub: a deployment goes to its cell, what runs there comes back, and both end while the cell is away. */
import type { PerturbationStory, Step } from "@berth/testcluster";
import { type HubActor, hubStory, type Plane, REMOVAL, REST } from "./hub-scene.ts";

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

const story = (name: string, steps: (actor: HubActor) => readonly Step[]) => (plane: Plane) =>
  hubStory(name, plane, steps);

const [toFederate, toCollect, toDelete] = [
  story("federate", federate),
  story("collect", collect),
  story("delete-while-away", deleteWhileAway),
];

/** Each of them with the hub and with the cell disturbed. */
export const hubStories: readonly PerturbationStory[] = (["hub", "cell"] as const).flatMap((plane) => [
  toFederate(plane),
  toCollect(plane),
  toDelete(plane),
]);
