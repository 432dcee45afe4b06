// SPDX-License-Identifier: Apache-2.0
// Error messages write the name of a setting in angle brackets: "5000 ranks on this machine; give <ranks> from 1 to
// 1024". The code that prints the message replaces the bracketed name with the spelling that its users know: the
// command line tool `kerf` prints "--ranks". A setting may have a value: of "<ranks=16>" the tool makes "--ranks 16".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kerf {

/// A function that returns how users write the setting `name` (for example "--ranks" for "ranks"), or nothing if there
/// is no such setting. A `value` that is not empty is written with it ("--ranks 16").
using SettingSpelling = std::function<std::optional<std::string>(std::string_view name, std::string_view value)>;

/// Returns `message` with each bracketed setting name, such as "<ranks>", replaced by the spelling that `spell` returns
/// for it. Setting names consist of lower-case letters and hyphens, and values of letters, digits and the signs '-',
/// '.' and '_'. A bracket directly after a letter or digit, as in "tensor<loss>", and a name for which `spell` returns
/// nothing are left unchanged.
std::string spellSettings(std::string_view message, const SettingSpelling &spell);

} // namespace kerf
