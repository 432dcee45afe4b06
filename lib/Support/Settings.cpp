// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Settings.h"

#include <cctype>

namespace kerf {

std::string spellSettings(std::string_view message, const SettingSpelling &spell) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  constexpr std::string_view kValue = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
  std::string text;
  while (!message.empty()) {
    const size_t open = message.find('<');
    if (open == message.npos)
      break;
    const size_t nameEnd = message.find_first_not_of(kLetters, open + 1);
    const bool valued = nameEnd != message.npos && message[nameEnd] == '=';
    const size_t end = valued ? message.find_first_not_of(kValue, nameEnd + 1) : nameEnd;
    const bool behindWord = open > 0 && std::isalnum(static_cast<unsigned char>(message[open - 1]));
    std::optional<std::string> spelled;
    if (end != message.npos && message[end] == '>' && nameEnd > open + 1 && !behindWord)
      spelled = spell(message.substr(open + 1, nameEnd - open - 1),
                      valued ? message.substr(nameEnd + 1, end - nameEnd - 1) : std::string_view());
    text += message.substr(0, spelled ? open : open + 1);
    text += spelled.value_or("");
    message.remove_prefix(spelled ? end + 1 : open + 1);
  }
  return text.append(message);
}

} // namespace kerf
