// SPDX-License-Identifier: Apache-2.0
// Reads the text of CSV files: records of cells, and numbers in cells.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// Splits the text of a CSV file into records of cells. A cell in double quotes may hold commas, line breaks and
/// doubled quotes. Empty lines are no records.
std::vector<std::vector<std::string>> csvRecords(std::string_view text);

/// Returns `cell` without spaces at its ends.
std::string trimmed(const std::string &cell);

/// Returns `text` with the letters A to Z in lower case.
std::string lowerCase(std::string_view text);

/// Returns the number that is the whole of `cell` if it is finite and above 0; nothing for any other text.
std::optional<double> positiveNumber(std::string_view cell);

} // namespace kerf
