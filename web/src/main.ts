// The page: starts its parts, in the order in which they rely on each other.

import { startTheme } from "./base/theme";
import { startDownloads } from "./panels/downloads";
import { startLabels } from "./panels/labels";
import { startNotices } from "./panels/notices";
import { openLinked, startOpening } from "./panels/opening";
import { startPictures } from "./panels/pictures";
import { startResults } from "./panels/results";
import { setSamples, startSampling } from "./panels/sampling";
import { connect, link } from "./state/connection";
import { busy, cancel, scene } from "./state/session";
import { fromFragment, keepAddress } from "./state/settings";

fromFragment(location.hash);
keepAddress();
startTheme();
startNotices();
startOpening();
startSampling();
startPictures();
startResults(setSamples);
startDownloads();
startLabels();
// The browser ends the call of a page that is left; a page kept for "back" ends it here.
addEventListener("pagehide", cancel);
link.onChange((state) => {
  if (state === "online" && !scene.value && !busy.value) openLinked();
});
void connect();
