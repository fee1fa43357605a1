// The page: starts its parts, in the order in which they rely on each other.

import { startFiles } from "./panels/files";
import { startNotices } from "./panels/notices";
import { startPictures } from "./panels/pictures";
import { startResults } from "./panels/results";
import { setSamples, startSampling } from "./panels/sampling";
import { connect, link } from "./state/connection";
import { busy, cancel, chooseStreet, scene } from "./state/session";

startNotices();
startFiles();
startSampling();
startPictures();
startResults(setSamples);
// The browser ends the call of a page that is left; a page kept for "back" ends it here.
addEventListener("pagehide", cancel);
link.onChange((state) => {
  if (state === "online" && !scene.value && !busy.value) void chooseStreet();
});
void connect();
