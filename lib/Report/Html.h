// SPDX-License-Identifier: Apache-2.0
// Building blocks of HTML pages. Every text from outside goes through escaped() and every coordinate through number(),
// so that a page is well formed and the same input always gives the same bytes. Internal to the Report library.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kerf::html {

/// Escapes a text for HTML, also inside of attributes in double quotes. Replaces control characters and invalid UTF-8
/// by U+FFFD.
std::string escaped(std::string_view text);
/// Returns a coordinate as text, rounded to a tenth of a pixel: "12", "12.5".
std::string number(double value);

/// Kind of the cells in a table column.
enum class CellKind {
  Text,   // text that may break anywhere, e.g. names of the user's model
  Words,  // text that stays on one line
  Number, // number: stays on one line, right aligned
};
/// Heading and kind of a table column.
struct Column {
  std::string name;
  CellKind kind = CellKind::Text;
};
/// Width of a table: the page's width, or as wide as its content.
enum class Width { Page, Content };
/// Builds an HTML table. Cells are escaped.
class Table {
public:
  explicit Table(std::vector<Column> columns, Width width = Width::Page);
  /// Begins a group of rows with a heading across the table.
  void group(std::string_view title);
  /// Adds a row, with one text for each column.
  void row(const std::vector<std::string> &cells);
  /// Adds a row whose first cell is `markup`, HTML that is not escaped, followed by `cells`.
  void rowWithMarkup(const std::string &markup, const std::vector<std::string> &cells);
  /// Returns the HTML of the table.
  std::string text() const;

private:
  std::string cell(size_t column, const std::string &markup) const;
  std::vector<Column> columns;
  Width width;
  std::string body = {};
  bool open = false; // true while a <tbody> is open
};

/// One segment of a bar. `pattern` is the class of the style sheet that colours the segment.
struct BarSegment {
  std::string name, pattern;
  double value = 0;      // length, in the unit of the bar's total
  std::string valueText; // the value with its unit: "1.2 s"
};
/// Returns an SVG bar of width `total`; the segments may add up to less. `label` describes the bar for screen readers.
std::string bar(const std::vector<BarSegment> &shares, double total, std::string_view label);
/// Returns a legend from pairs of a style class and its meaning.
std::string legend(const std::vector<std::pair<std::string, std::string>> &patternAndName);

/// Returns a paragraph of small print.
std::string note(std::string_view text);
/// A key figure in a box: {"Step", "3.1 s", "128 samples"}.
struct Figure {
  std::string name, value, caption;
};
/// Returns key figures as a row of boxes.
std::string figures(const std::vector<Figure> &all);

/// A section of a page; `id` is its anchor and `body` its HTML.
struct Section {
  std::string id, title, body;
};
/// Returns a complete HTML page with its style sheet and a list of its sections at the top.
std::string page(std::string_view title, std::string_view subtitle, const std::vector<Section> &sections);

} // namespace kerf::html
