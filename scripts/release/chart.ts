/** The chart with the image of this release in it: as a file, in an index for `helm repo add`, and as an OCI artifact. */
import { hash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { isMap, parse, parseDocument, stringify } from "yaml";
import { helmFolder } from "../chart/helm.ts";
import { pack } from "../image/layout.ts";
import { run } from "../run.ts";

export interface ChartImage {
  /** Without tag. */
  readonly repository: string;
  readonly digest: string;
}

/** @returns the packed chart, with this image as the default of its values. */
export async function packChart(
  plain: string,
  output: string,
  scratch: string,
  image: ChartImage,
): Promise<string> {
  await run("tar", ["--extract", "--file", plain, "--directory", scratch]);
  const folder = join(scratch, "berth");
  const values = join(folder, "values.yaml");
  const document = parseDocument(await readFile(values, "utf8"));
  for (const [key, value] of Object.entries(image)) {
    if (!isMap(document.get("image"))) throw new Error("values.yaml of the chart has no `image`");
    document.setIn(["image", key], value);
  }
  // Elsewhere the chart says there that the image has to be made first.
  const text = document
    .toString({ lineWidth: 0 })
    .replace(/^# The image\..*$/m, "# The image of this release.");
  await writeFile(values, text);
  await run(join(helmFolder(), "helm"), ["package", folder, "--destination", output]);
  return join(output, basename(plain));
}

export interface Placement {
  /** Where the packed chart will be found. */
  readonly url: string;
  readonly date: Date;
}

/** Writes `index.yaml` and the artifact, as `helm push` makes one, beside the packed chart. */
export async function publishChart(
  packed: string,
  output: string,
  scratch: string,
  { url, date }: Placement,
): Promise<void> {
  const text = await run("tar", ["--extract", "--to-stdout", "--file", packed, "berth/Chart.yaml"]);
  const chart = parse(text) as { readonly name: string; readonly version: string };
  const content = await readFile(packed);
  const created = date.toISOString();
  const entry = { ...chart, created, digest: hash("sha256", content), urls: [url] };
  const index = { apiVersion: "v1", entries: { [chart.name]: [entry] }, generated: created };
  await writeFile(join(output, "index.yaml"), stringify(index, { lineWidth: 0 }));

  const layout = join(scratch, "layout");
  await mkdir(join(layout, "blobs/sha256"), { recursive: true });
  const store = async (mediaType: string, bytes: Buffer): Promise<Descriptor> => {
    const hex = hash("sha256", bytes);
    await writeFile(join(layout, "blobs/sha256", hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));
  const manifest = await store(
    MANIFEST,
    json({
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: await store("application/vnd.cncf.helm.config.v1+json", json(chart)),
      layers: [await store("application/vnd.cncf.helm.chart.content.v1.tar+gzip", content)],
      annotations: {
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.title": chart.name,
        "org.opencontainers.image.version": chart.version,
      },
    }),
  );
  const named = { ...manifest, annotations: { "org.opencontainers.image.ref.name": chart.version } };
  await writeFile(join(layout, "index.json"), json({ schemaVersion: 2, manifests: [named] }));
  await writeFile(join(layout, "oci-layout"), json({ imageLayoutVersion: "1.0.0" }));
  await pack(join(output, `berth-chart-${chart.version}.oci.tar`), layout, date);
}

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}
