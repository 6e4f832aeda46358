import { hubStories } from "./hub.ts";
import { describeSampled } from "./sampled.ts";

// Each story takes half a minute, as it is told twice undisturbed: `make perturb` tells the others.
describeSampled(
  "a deployment is in its cell as the project wants it, and the project sees what is there, whatever happens to Berth",
  hubStories.slice(0, 1),
);
