// SPDX-License-Identifier: Apache-2.0
// Messages name the fact, and the setting that would help in angle brackets: "5000 ranks on this machine; give <ranks>
// from 1 to 1024". Whoever shows a message writes the setting as its users give it: `kerf` as the option --ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kerf {

/// The name of a setting as its users write it; nothing for what is no setting.
using SettingSpelling = std::function<std::optional<std::string>(std::string_view name)>;

/// The message with each "<name>" that `spell` knows written as it says. Names are lower-case letters and hyphens; what
/// stands directly behind a letter or a digit, as in "tensor<loss>", is no setting.
std::string spellSettings(std::string_view message, const SettingSpelling &spell);

} // namespace kerf
