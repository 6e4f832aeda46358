import { X509Certificate } from "node:crypto";
import { expect, it } from "vitest";
import { createAuthority } from "./certificates.ts";

it("createAuthority signs certificates that chain to it", async () => {
  const authority = await createAuthority();
  const root = new X509Certificate(authority.certificate);
  const serving = new X509Certificate((await authority.issueServing(["localhost", "127.0.0.1"])).certificate);
  expect(root.ca).toBe(true);
  expect(serving.ca).toBe(false);
  expect(serving.verify(root.publicKey)).toBe(true);
  expect(serving.checkHost("localhost")).toBe("localhost");
  expect(serving.checkIP("127.0.0.1")).toBe("127.0.0.1");
  expect(serving.checkHost("example.com")).toBeUndefined();
});

it("createAuthority puts user and groups where the API server reads them", async () => {
  const authority = await createAuthority();
  const client = new X509Certificate((await authority.issueClient("ann", ["dev", "ops"])).certificate);
  expect(client.subject.split("\n").toSorted()).toEqual(["CN=ann", "O=dev", "O=ops"]);
});
