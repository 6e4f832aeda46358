import { expect, it } from "vitest";
import { rightsInCell, rightText } from "./rights.ts";

it("asks for what the hub may do in a cell, and for Leases of one namespace alone", () => {
  const texts = rightsInCell("berth-system").map(rightText);
  expect(texts).toContain('verb "create" on "namespaces"');
  expect(texts).toContain('verb "delete" on "workloaddeployments.compute.datumapis.com"');
  expect(texts).toContain('verb "list" on "leases.coordination.k8s.io" in namespace "berth-system"');
  expect(texts.join()).not.toMatch(/"(?:patch|delete)" on "(?:namespaces|instances)/);
});
