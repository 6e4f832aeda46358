/** `Cell` and `Withdrawal` as the API server serves them. */
import { type CustomKind, conditions, counted, observedGeneration, type Remark } from "@berth/host";
import { findCondition } from "@berth/runtime";
import * as z from "zod";
import { type Cell, cells, MOST_NAMED, withdrawals } from "../api/cell.ts";
import { age, column, condition } from "./columns.ts";
import { name, onUpdate } from "./schema.ts";

const fixed = onUpdate({ rule: "self == oldSelf", message: "must not change" });

const orphanId = {
  namespace: name("Of the deployment in the cell."),
  name: name("Of the deployment in the cell."),
  sourceUid: name("The uid of the deployment in the project that it was made for."),
  epoch: z.int().min(1).describe("Its placement."),
};

const city = z
  .string()
  .regex(/^[A-Za-z0-9-]{1,16}$/)
  .describe("The code of the city that it serves.");

export const cellKind: CustomKind = {
  resource: cells,
  singular: "cell",
  shortNames: [],
  description: "A Cell is a cluster that runs the Instances of a city.",
  spec: z
    .strictObject({
      city: city.meta(fixed),
      secretRef: z
        .strictObject({ name: name("Of the Secret.") })
        .describe("A Secret in Berth's namespace: its key kubeconfig is the connection."),
      uid: name(
        "The uid of the cluster: that of its identityNamespace. Berth writes to no other cluster.",
      ).meta(fixed),
      identityNamespace: name("The namespace whose uid is that of the cluster.").default("kube-system"),
      namespace: name(
        "Berth's namespace in the cell, where the hub looks for its Lease. Default: the name of Berth's own namespace.",
      ).optional(),
      drain: z
        .boolean()
        .optional()
        .describe(
          "Its deployments move to other cells of the city, and it takes no new ones. Default false.",
        ),
      forgotten: z
        .boolean()
        .optional()
        .describe("The cell never comes back: its deployments go elsewhere. It cannot be taken back."),
      adopt: z
        .array(z.strictObject(orphanId))
        .max(MOST_NAMED)
        .optional()
        .describe("Orphans that become those of the deployments with their names in the project."),
    })
    .meta(
      onUpdate({
        rule: "!(has(oldSelf.forgotten) && oldSelf.forgotten) || (has(self.forgotten) && self.forgotten)",
        message: "a forgotten Cell stays forgotten: add the cluster under another name",
      }),
    )
    .describe("Which cluster it is."),
  status: z
    .strictObject({
      conditions,
      observedGeneration,
      since: z
        .string()
        .optional()
        .meta({ format: "date-time" })
        .describe("When it was last heard. Absent while it is heard."),
      orphans: z
        .strictObject({
          count: z.int().min(1).describe("How many there are."),
          names: z
            .array(
              z.strictObject({
                ...orphanId,
                start: z.int().min(0).describe("Its first ordinal."),
                of: z.string().optional().describe("Project, namespace and name that it had there."),
                held: z.boolean().optional().describe("A later placement is known: it wants no Instances."),
              }),
            )
            .max(MOST_NAMED)
            .describe("The first of them."),
        })
        .optional()
        .describe("Deployments in the cell that this hub made, and that nothing stands for. Absent: none."),
    })
    .describe("What was found. Written when it changes, and not as a heartbeat."),
  shown: { condition: "Reachable", remarks },
  columns: [
    column("City", ".spec.city"),
    column("Reachable", condition("Reachable", "status")),
    column("Reason", condition("Reachable", "reason")),
    column("Accepting", condition("Accepting", "status")),
    column("Since", ".status.since", "date"),
    age,
  ],
};

export const withdrawalKind: CustomKind = {
  resource: withdrawals,
  singular: "withdrawal",
  shortNames: [],
  description: "A Withdrawal is a deployment that Berth deletes from a cell as soon as the cell answers.",
  spec: z
    .strictObject({
      cell: name("Of the Cell."),
      cellUid: name("The uid of the cluster."),
      namespace: name("Of the deployment in the cell."),
      name: name("Of the deployment in the cell."),
      sourceUid: name("The uid of the deployment in the project. No other is deleted."),
      epoch: z.int().min(1).optional().describe("Later epochs stay. Default: none stays."),
      start: z.int().min(0).optional().describe("Its first ordinal. No other deployment uses it meanwhile."),
    })
    .meta(fixed)
    .describe("What goes, and from where."),
  status: z.strictObject({}).describe("Not used."),
  columns: [
    column("Cell", ".spec.cell"),
    column("Namespace", ".spec.namespace"),
    column("Deployment", ".spec.name"),
    age,
  ],
};

function remarks({ spec, status }: Cell): readonly Remark[] {
  const { since, orphans, conditions: found } = status ?? {};
  const credential = findCondition(found, "CredentialExpiring");
  return [
    ...(credential === undefined ? [] : [{ text: credential.message }]),
    ...(since === undefined ? [] : [{ text: `is not heard since ${since}` }]),
    ...(spec?.forgotten === true ? [{ text: "is forgotten: its deployments go elsewhere" }] : []),
    ...(orphans === undefined
      ? []
      : [{ text: `has ${counted(orphans.count, "orphan")}: \`berth cell list --orphans\`` }]),
  ];
}
