import { expect, it } from "vitest";
import { type AdmissionSettings, admissionServerSpec, whyUnasked } from "./settings.ts";

type Given = Omit<AdmissionSettings, "spec"> & Partial<AdmissionSettings["spec"]>;

const POD: Given = { namespace: "berth-system" };
const TERMINAL: Given = { namespace: "berth-system", inCluster: false };
const url = "https://berth.example:8443";
const service = { namespace: "berth-system", name: "berth-webhook", port: 443 };

it.each<[string, Given, webhook: string | undefined, policies: string | undefined]>([
  ["a pod", POD, undefined, undefined],
  ["a pod whose admission is off", { ...POD, mode: "Off" }, "off", "off"],
  ["a process in a terminal", TERMINAL, "outside", undefined],
  ["the same, with a url", { ...TERMINAL, url }, undefined, undefined],
  ["the same, with a Service of the user's", { ...TERMINAL, service }, undefined, undefined],
  ["the same, with certificates", { ...TERMINAL, certificates: "/tls" }, undefined, undefined],
  ["the same, where the user wants a webhook", { ...TERMINAL, mode: "Webhook" }, undefined, undefined],
  ["one without a namespace", { inCluster: false }, "homeless", "homeless"],
  ["the same, with a url", { inCluster: false, url }, undefined, undefined],
])("says why the API server does not ask %s", (_, { namespace, inCluster, ...spec }, webhook, policies) => {
  const settings = {
    spec: admissionServerSpec.parse(spec),
    ...(namespace !== undefined && { namespace }),
    ...(inCluster !== undefined && { inCluster }),
  };
  expect([whyUnasked(settings, false), whyUnasked(settings, true)]).toEqual([webhook, policies]);
});
