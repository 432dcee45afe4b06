// SPDX-License-Identifier: Apache-2.0
// The frame of a page and its style sheet. The colours are the palette of Okabe and Ito, which people with any kind of
// colour vision can distinguish, and words or numbers repeat whatever a colour says.
#include "Html.h"

#include <fmt/format.h>

namespace kerf::html {

namespace {

constexpr const char *kStyle = R"css(
:root { color-scheme: light; --line: #d0d7de; --soft: #57606a; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 20px 28px 60px; color: #1f2328; background: #fff;
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 34px 0 8px; padding-top: 10px; border-top: 1px solid var(--line); }
h3 { font-size: 14px; margin: 18px 0 6px; }
header p { margin: 2px 0 10px; color: var(--soft); overflow-wrap: anywhere; }
nav { font-size: 13px; } nav a { margin-right: 14px; color: #0550ae; text-decoration: none; }
nav a:hover, nav a:focus { text-decoration: underline; }
p { margin: 6px 0; } .note { color: var(--soft); font-size: 13px; max-width: 100ch; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(168px, 1fr)); gap: 10px; margin: 14px 0; }
.figures div { border: 1px solid var(--line); border-radius: 6px; padding: 8px 12px; }
.figures dt { color: var(--soft); font-size: 12px; } .figures dd { margin: 0; font-size: 20px; font-weight: 600; }
.figures dd.more { font-size: 12px; font-weight: 400; color: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13px; margin: 6px 0; }
th, td { text-align: left; vertical-align: top; padding: 3px 10px 3px 0; border-bottom: 1px solid #eaeef2;
  overflow-wrap: anywhere; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--line); overflow-wrap: normal; }
tr.group th { padding-top: 12px; font-weight: 600; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.w { white-space: nowrap; } td.n + td:not(.n), th.n + th:not(.n) { padding-left: 12px; }
.plain { width: auto; } .plain td, .plain th { padding-right: 34px; }
.beside { display: flex; flex-wrap: wrap; gap: 0 70px; }
code, .mono { font-family: ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", Menlo, monospace; font-size: 12px; }
svg { display: block; width: 100%; height: auto; } svg text { font-size: 11px; fill: #1f2328; }
svg.bar { margin: 6px 0; } td svg.bar text { display: none; } svg .soft { fill: var(--soft); } svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; } svg .axis { stroke: #8c959f; stroke-width: 1; fill: none; }
svg .box { fill: #f6f8fa; stroke: #8c959f; } svg .outline { fill: none; stroke: #1f2328; stroke-width: 1.4; }
.legend { font-size: 12px; } .legend span { display: inline-block; margin-right: 14px; white-space: nowrap; }
.legend svg { display: inline-block; width: 12px; height: 12px; vertical-align: -1px; }
.forward { fill: #8fcbee; } .backward { fill: #0072b2; } .weights { fill: #009e73; } .recompute { fill: #e69f00; }
.optimizer { fill: #57606a; } .collectives { fill: #d55e00; } .bubble { fill: #eaeef2; } .waiting { fill: #f7b27a; }
.hidden { fill: #f2d3bd; } .fixed { fill: #9aa5b1; } .activations { fill: #56b4e9; } .unused { fill: #fff; }
.states { fill: #57606a; } .gradients { fill: #e69f00; } .workspace { fill: #cc79a7; } .overhead { fill: #d0d7de; }
.on-backward, .on-optimizer, .on-weights, .on-states { fill: #fff !important; }
.limit { stroke: #b3261e; stroke-width: 1.4; stroke-dasharray: 6 4; fill: none; }
.held { fill: #56b4e9; stroke: #0072b2; stroke-width: .7; }
.s0 { fill: #56b4e9; } .s1 { fill: #e69f00; } .s2 { fill: #4cc3a1; } .s3 { fill: #f0e442; } .s4 { fill: #cc79a7; }
.s5 { fill: #a9c4e4; } .s6 { fill: #e08a5b; } .s7 { fill: #c3cad2; }
.topology { display: flex; flex-wrap: wrap; gap: 10px; margin: 10px 0; } .topology figure { margin: 0; }
.topology svg { width: auto; } .topology figcaption { font-size: 12px; color: var(--soft); }
.warning { border-left: 4px solid #e69f00; padding: 2px 10px; } .fails { color: #b3261e; }
@media print {
  @page { size: landscape; margin: 12mm; } body { max-width: none; padding: 0; font-size: 11px; } nav { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, h3, .legend { break-after: avoid; } h2 { margin-top: 20px; } tr, svg, figure, .figures div, .legend { break-inside: avoid; }
  .scroll { overflow: visible; } table { font-size: 9.5px; } thead { display: table-header-group; }
}
)css";

} // namespace

std::string page(std::string_view title, std::string_view subtitle, const std::vector<Section> &sections) {
  std::string links, body;
  for (const Section &section : sections) {
    links += fmt::format("<a href=\"#{}\">{}</a>\n", section.id, escaped(section.title));
    body += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
        section.id, escaped(section.title), section.body);
  }
  return fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n"
                     "<header>\n<h1>{0}</h1>\n<p>{2}</p>\n<nav aria-label=\"sections\">\n{3}</nav>\n</header>\n"
                     "<main>\n{4}</main>\n</body>\n</html>\n",
                     escaped(title), kStyle, escaped(subtitle), links, body);
}

} // namespace kerf::html
