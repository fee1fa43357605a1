// The page: its parts are started here, in the order in which they rely on each other.

import { connect } from "./connection";
import { startEncodeControls } from "./encode/controls";
import { startDownloads } from "./sample/downloads";
import { startPicking } from "./sample/picking";
import { setSamples, startSampleControls } from "./sample/controls";
import { startResults } from "./sample/results";
import { startServerTab } from "./server/panel";
import { cancel } from "./session";
import { fromFragment, keepAddress, settings } from "./state";
import { bindRadios, element } from "./ui/dom";
import { startNotices } from "./ui/notice";
import { openLinked, startOpening } from "./ui/opening";
import { startTabs } from "./ui/tabs";
import { startTheme, theme } from "./ui/theme";
import { attachControls } from "./view/controls";
import { startLabels } from "./view/labels";
import { keepPictures, picked, shown } from "./view/pictures";
import { Viewer } from "./view/viewer";

fromFragment(location.hash);
keepAddress();
startTheme();
startTabs();
startNotices();
startOpening();
startSampleControls();
startEncodeControls();
startPictures();
startPicking();
startResults(setSamples);
startDownloads();
startLabels();
startServerTab();
// The browser ends the call of a page that is left; a page kept for "back" ends it here.
addEventListener("pagehide", cancel);
void connect().then(openLinked);

function startPictures(): void {
  const canvas = element("canvas", "canvas");
  const viewer = new Viewer(canvas, settings.renderer.value, settings.camera);
  theme.follow(() => viewer.setBackground(getComputedStyle(canvas).backgroundColor));
  attachControls(canvas, viewer, (x, y) => shown.value && picked.set(viewer.sampleAt(x, y)));
  settings.layout.follow((layout) => {
    viewer.layout = layout;
    viewer.draw();
  });
  settings.size.follow((size) => {
    viewer.size = size;
    viewer.draw();
  });
  const layouts = bindRadios(
    "layout",
    () => settings.layout.value,
    (value) => settings.layout.set(value === "over" ? "over" : "beside"),
  );
  settings.layout.onChange(layouts);
  const resize = (factor: number): void =>
    settings.size.set(
      Math.round(100 * Math.max(0.5, Math.min(12, settings.size.value * factor))) / 100,
    );
  element("smaller", "button").addEventListener("click", () => resize(1 / 1.25));
  element("larger", "button").addEventListener("click", () => resize(1.25));
  element("reset", "button").addEventListener("click", () => {
    viewer.orbit.reset();
    viewer.move();
  });
  keepPictures(viewer);
}
