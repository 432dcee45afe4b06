// SPDX-License-Identifier: Apache-2.0
#include "Html.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kerf::html {

namespace {

/// Returns the length in bytes of the UTF-8 sequence that begins at `text[at]`; 0 if it is invalid.
size_t sequenceAt(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(at);
  size_t length = first < 0x80                    ? 1
                  : first >= 0xC2 && first < 0xE0 ? 2
                  : first >= 0xE0 && first < 0xF0 ? 3
                  : first >= 0xF0 && first < 0xF5 ? 4
                                                  : 0;
  if (length == 0 || at + length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xC0) != 0x80)
      return 0;
  if (length < 3)
    return length;
  // Reject overlong sequences, halves of surrogate pairs, and values beyond the last code point.
  unsigned char second = byte(at + 1);
  bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
             (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return bad ? 0 : length;
}

std::string_view classOf(CellKind cells) {
  return cells == CellKind::Number ? " class=\"n\"" : cells == CellKind::Words ? " class=\"w\"" : "";
}

} // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t length = sequenceAt(text, at);
    unsigned char byte = static_cast<unsigned char>(text[at]);
    if (length == 0 || (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F)
      out += "\xEF\xBF\xBD";
    else if (byte == '&')
      out += "&amp;";
    else if (byte == '<')
      out += "&lt;";
    else if (byte == '>')
      out += "&gt;";
    else if (byte == '"')
      out += "&quot;";
    else if (byte == '\'')
      out += "&#39;";
    else
      out += text.substr(at, length);
    at += std::max<size_t>(1, length);
  }
  return out;
}

std::string number(double value) {
  double tenths = std::round(value * 10) / 10;
  if (tenths == 0) // no "-0"
    return "0";
  return tenths == std::trunc(tenths) ? fmt::format("{:.0f}", tenths) : fmt::format("{:.1f}", tenths);
}

Table::Table(std::vector<Column> columns, Width width) : columns(std::move(columns)), width(width) {}

void Table::group(std::string_view title) {
  if (open)
    body += "</tbody>\n";
  body += fmt::format("<tbody><tr class=\"group\"><th colspan=\"{}\" scope=\"rowgroup\">{}</th></tr>\n", columns.size(),
                      escaped(title));
  open = true;
}

std::string Table::cell(size_t column, const std::string &markup) const {
  return fmt::format("<td{}>{}</td>", classOf(columns[column].kind), markup);
}

void Table::row(const std::vector<std::string> &cells) {
  rowWithMarkup(escaped(cells.front()), {cells.begin() + 1, cells.end()});
}

void Table::rowWithMarkup(const std::string &markup, const std::vector<std::string> &cells) {
  if (!open)
    body += "<tbody>\n";
  open = true;
  body += "<tr>" + cell(0, markup);
  for (size_t i = 0; i < cells.size(); ++i)
    body += cell(i + 1, escaped(cells[i]));
  body += "</tr>\n";
}

std::string Table::text() const {
  std::string text =
      fmt::format("<div class=\"scroll\"><table{}>\n<thead><tr>", width == Width::Content ? " class=\"plain\"" : "");
  for (const Column &column : columns)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", classOf(column.kind), escaped(column.name));
  return text + "</tr></thead>\n" + body + (open ? "</tbody>\n" : "") + "</table></div>\n";
}

std::string bar(const std::vector<BarSegment> &segments, double total, std::string_view label) {
  constexpr double kWidth = 1000, kHeight = 26, kLetter = 7.2, kLeast = 0.3;
  std::string said(label), body;
  double at = 0;
  for (const BarSegment &segment : segments) {
    double width = total > 0 ? kWidth * segment.value / total : 0;
    said += fmt::format("; {} {}", segment.name, segment.valueText);
    if (width < kLeast)
      continue;
    body += fmt::format("<g><title>{0}: {1}</title><rect class=\"{2}\" x=\"{3}\" width=\"{4}\" height=\"{5}\"/>",
                        escaped(segment.name), escaped(segment.valueText), segment.pattern, number(at), number(width),
                        number(kHeight));
    if (width > kLetter * static_cast<double>(segment.name.size()) + 6)
      body += fmt::format("<text class=\"on-{}\" x=\"{}\" y=\"17\">{}</text>", segment.pattern, number(at + 5),
                          escaped(segment.name));
    body += "</g>\n";
    at += width;
  }
  return fmt::format("<svg class=\"bar\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
                     number(kWidth), number(kHeight), escaped(said), body);
}

std::string legend(const std::vector<std::pair<std::string, std::string>> &patternAndName) {
  std::string text = "<p class=\"legend\">";
  for (const auto &[pattern, name] : patternAndName)
    text += fmt::format("<span><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect class=\"{}\" width=\"14\" "
                        "height=\"14\"/></svg> {}</span> ",
                        pattern, escaped(name));
  return text + "</p>\n";
}

std::string note(std::string_view text) { return fmt::format("<p class=\"note\">{}</p>\n", escaped(text)); }

std::string figures(const std::vector<Figure> &all) {
  std::string text = "<dl class=\"figures\">\n";
  for (const Figure &figure : all)
    text += fmt::format("<div><dt>{}</dt><dd>{}</dd><dd class=\"more\">{}</dd></div>\n", escaped(figure.name),
                        escaped(figure.value), escaped(figure.caption));
  return text + "</dl>\n";
}

} // namespace kerf::html
