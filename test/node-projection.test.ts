import { nodes } from "@berth/kube";
import { expect, it } from "vitest";
import { nodeProjection } from "../packages/cli/src/capabilities.ts";
import { decoderOf } from "../packages/kube/src/protobuf/decoder.ts";

it("what capabilities keep of Nodes is read from protobuf", () => {
  expect(decoderOf(nodes, nodeProjection())).toBeDefined();
});
