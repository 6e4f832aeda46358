import { describe, expect, it } from "vitest";
import { folderOf, labelsFrom } from "../node/testing/labels.ts";
import { tellStory } from "../node/testing/story.ts";
import { makeNode } from "../node/testing/world.ts";

const edgetpu = "accelerators/edgetpu";
const files = { [edgetpu]: "feature.node.kubernetes.io/usb-fe_1a6e_089a.present\nkkohtaka.org/edgetpu\n" };

describe("the life of a derived label", () => {
  it("reads as it was reviewed", async () => {
    const story = tellStory(makeNode({ labels: { "kubernetes.io/arch": "arm64" } }), [
      labelsFrom(folderOf(files)),
    ]);
    story.happens("a device is found", { edit: { labels: { "kkohtaka.org/edgetpu": "1" } } });
    story.happens("somebody sets the label to another value", { edit: { labels: { [edgetpu]: "no" } } });
    story.happens("somebody deletes it", { edit: { labels: { [edgetpu]: null } } });
    const chained = { ...files, "ml/inference": `${edgetpu}\n` };
    story.happens("a rule is added that builds on it", { rules: [labelsFrom(folderOf(chained))] });
    story.happens("its file cannot be read", {
      rules: [labelsFrom(folderOf({ ...chained, [edgetpu]: undefined }))],
      edit: { labels: { "kkohtaka.org/edgetpu": null } },
    });
    story.happens("the whole folder is away", { rules: [labelsFrom(folderOf({}, false))] });
    story.happens("both are back, and the device is gone", { rules: [labelsFrom(folderOf(chained))] });
    story.happens("the device returns", { edit: { labels: { "kkohtaka.org/edgetpu": "1" } } });
    story.happens("the file is renamed", {
      rules: [labelsFrom(folderOf({ "ml/edgetpu": files[edgetpu] ?? "" }))],
    });
    story.happens("the last file is deleted", { rules: [labelsFrom(folderOf({}))] });
    await expect(story.tell()).toMatchFileSnapshot("testdata/derived-label.golden");
  });
});
