// SPDX-License-Identifier: Apache-2.0
// Pieces of a page: everything that comes from outside goes through escaped(), every number through number(), so that a
// page is well formed and the same bytes every time. Private to the room.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kerf::html {

/// For text and for attributes in double quotes. Bytes that no page may hold (control characters, broken UTF-8) become
/// U+FFFD.
std::string escaped(std::string_view text);
/// A coordinate, to a tenth of a pixel: "12", "12.5".
std::string number(double value);

/// What a column of a table holds; cells are text, whatever names they have in them.
enum class Cells {
  Text,   // may break anywhere: names that users gave
  Words,  // stay in one line
  Number, // likewise, and right aligned
};
struct Column {
  std::string name;
  Cells cells = Cells::Text;
};
enum class Width { Page, Content };
/// Rows go into groups, or all into one.
class Table {
public:
  explicit Table(std::vector<Column> columns, Width width = Width::Page);
  /// A line across the table, above the rows that follow.
  void group(std::string_view title);
  void row(const std::vector<std::string> &cells);
  /// The first cell is `markup`, which the caller has made.
  void rowWithMarkup(const std::string &markup, const std::vector<std::string> &cells);
  std::string text() const;

private:
  std::string cell(size_t column, const std::string &markup) const;
  std::vector<Column> columns;
  Width width;
  std::string body = {};
  bool open = false; // a <tbody>
};

/// A bar of shares of a whole, and what its colours mean. `pattern`: a class of the style sheet.
struct Share {
  std::string name, pattern;
  double value = 0;
  std::string said; // "1.2 s"
};
/// `whole` is the width of the bar; shares may add up to less.
std::string bar(const std::vector<Share> &shares, double whole, std::string_view label);
std::string legend(const std::vector<std::pair<std::string, std::string>> &patternAndName);

std::string note(std::string_view text);
/// Figures in boxes: {"step time", "3.1 s"} with a line beneath each.
struct Figure {
  std::string name, value, more;
};
std::string figures(const std::vector<Figure> &all);

/// The whole page. Sections are listed at its head.
struct Section {
  std::string id, title, body;
};
std::string page(std::string_view title, std::string_view subtitle, const std::vector<Section> &sections);

} // namespace kerf::html
