// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Settings.h"

#include <cctype>

namespace kerf {

std::string spellSettings(std::string_view message, const SettingSpelling &spell) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::string text;
  while (!message.empty()) {
    const size_t open = message.find('<');
    if (open == message.npos)
      break;
    const size_t end = message.find_first_not_of(kLetters, open + 1);
    const bool behindWord = open > 0 && std::isalnum(static_cast<unsigned char>(message[open - 1]));
    std::optional<std::string> spelled;
    if (end != message.npos && message[end] == '>' && end > open + 1 && !behindWord)
      spelled = spell(message.substr(open + 1, end - open - 1));
    text += message.substr(0, spelled ? open : open + 1);
    text += spelled.value_or("");
    message.remove_prefix(spelled ? end + 1 : open + 1);
  }
  return text.append(message);
}

} // namespace kerf
