export { baseName } from "@berth/placement";
