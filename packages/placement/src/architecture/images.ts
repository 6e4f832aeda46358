/** Lists where a pod names images, and how the kubelet would pull them. Total: a client may send any spec. */
import type { PodSpec } from "@berth/kube";
import { field, listField, textField } from "../node/untrusted-json.ts";
import type { ImageAccess, ImageQuestion } from "./image-observations.ts";
import type { ImageUse } from "./pod-view.ts";

const CONTAINERS = [
  ["containers", "container"],
  ["initContainers", "init container"],
  ["ephemeralContainers", "ephemeral container"],
] as const;
const VOLUME = "image volume";

/** Names in a valid pod are no longer than this. Berth cuts longer names for messages. */
const MAX_NAME = 63;

/**
 * In the order of the pod: containers, init containers (restartable ones are among them), ephemeral containers, image
 * volumes. Leaves out a use without an image: Berth looks again once a client sets it. The same image twice gives two
 * uses with equal questions.
 */
export function imageUses(spec: PodSpec, namespace: string): readonly ImageUse[] {
  const access = accessOf(spec, namespace);
  const uses: ImageUse[] = [];
  const use = (kind: string, named: unknown, image: string, policy: string): void => {
    if (image.trim() === "") return;
    const where = `${kind} ${textField(named, "name").slice(0, MAX_NAME)}`.trimEnd();
    uses.push({ where, isVolume: kind === VOLUME, question: { image, pull: pullOf(policy, image), access } });
  };
  for (const [list, kind] of CONTAINERS) {
    for (const one of listField(spec, list))
      use(kind, one, textField(one, "image"), textField(one, "imagePullPolicy"));
  }
  for (const volume of listField(spec, "volumes")) {
    const image = field(volume, "image");
    use(VOLUME, volume, textField(image, "reference"), textField(image, "pullPolicy"));
  }
  return uses;
}

/** The default is that of the API server (`SetDefaults_Container`, pkg/apis/core/v1/defaults.go, v1.36). */
function pullOf(given: string, image: string): ImageQuestion["pull"] {
  if (given === "Always" || given === "IfNotPresent" || given === "Never") return given;
  return isLatest(image) ? "Always" : "IfNotPresent";
}

/** Is the tag `latest`, or neither a tag nor a digest given? */
function isLatest(image: string): boolean {
  const [name = "", digest] = image.split("@", 2);
  const colon = name.indexOf(":", name.lastIndexOf("/") + 1);
  return colon < 0 ? digest === undefined : name.slice(colon + 1) === "latest";
}

function accessOf(spec: PodSpec, namespace: string): ImageAccess {
  const secrets = listField(spec, "imagePullSecrets").map((it) => textField(it, "name"));
  return {
    namespace,
    serviceAccount: textField(spec, "serviceAccountName") || textField(spec, "serviceAccount") || "default",
    secrets: secrets.filter((name) => name !== ""),
  };
}
