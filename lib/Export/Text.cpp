// SPDX-License-Identifier: Apache-2.0
// Writers of configuration files from a tree of settings: a shell script with one command, TOML, and YAML.
#include "View.h"

namespace kerf::exporting {

namespace {

std::string comments(const std::vector<std::string> &head) {
  std::string text;
  for (const std::string &line : head)
    text += line.empty() ? "#\n" : "# " + line + "\n";
  return text;
}

/// Returns the shortest text that reads back to the same number, with a decimal point before an exponent: YAML 1.1
/// reads 1e-05 as a string.
std::string scalar(const Json &value) {
  std::string text = value.dump();
  size_t exponent = text.find('e');
  if (value.is_number_float() && exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

std::string inlineText(const Json &value) {
  if (!value.is_array())
    return scalar(value);
  std::vector<std::string> items;
  for (const Json &item : value)
    items.push_back(inlineText(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

/// Returns a value in TOML. A list of lists has one line for each inner list.
std::string tomlValue(const Json &value) {
  if (!value.is_array() || value.empty() || !value[0].is_array())
    return inlineText(value);
  std::string text = "[\n";
  for (const Json &row : value)
    text += "  " + inlineText(row) + ",\n";
  return text + "]";
}

void addYaml(const Json &object, const std::string &indent, std::string &text) {
  for (const auto &[key, value] : object.items()) {
    if (value.is_object()) {
      text += fmt::format("{}{}:\n", indent, key);
      addYaml(value, indent + "  ", text);
    } else {
      text += fmt::format("{}{}: {}\n", indent, key, inlineText(value));
    }
  }
}

/// Appends a TOML table, followed by its nested tables under their full paths.
void addToml(const Json &table, const std::string &path, std::string &text) {
  std::string own;
  for (const auto &[key, value] : table.items())
    if (!value.is_object())
      own += fmt::format("{} = {}\n", key, tomlValue(value));
  if (!own.empty())
    text += (path.empty() ? "\n" : fmt::format("\n[{}]\n", path)) + own;
  for (const auto &[key, value] : table.items())
    if (value.is_object())
      addToml(value, path.empty() ? key : path + "." + key, text);
}

std::string quoted(const std::string &word) {
  constexpr const char *kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos)
    return word;
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

} // namespace

std::vector<std::string> commandLineWords(const Json &arguments) {
  std::vector<std::string> all;
  for (const auto &[name, value] : arguments.items()) {
    std::string text = name;
    if (value.is_string())
      text += " " + quoted(value.get<std::string>());
    else if (value != true)
      text += " " + quoted(scalar(value));
    all.push_back(text[0] == ' ' ? text.substr(1) : text);
  }
  return all;
}

std::string shellText(const std::vector<std::string> &head, const std::string &command, const Json &arguments) {
  std::string text = "#!/bin/sh\n" + comments(head) + "set -eu\n" + command;
  for (const std::string &word : commandLineWords(arguments))
    text += " \\\n  " + word;
  return text + " \\\n  \"$@\"\n";
}

std::string pythonValue(const Json &value) {
  if (value.is_null())
    return "None";
  if (value.is_boolean())
    return value.get<bool>() ? "True" : "False";
  if (!value.is_array())
    return value.dump();
  std::vector<std::string> items;
  for (const Json &item : value)
    items.push_back(pythonValue(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string tomlText(const std::vector<std::string> &head, const Json &config) {
  std::string text = comments(head);
  addToml(config, "", text);
  return text;
}

std::string yamlText(const std::vector<std::string> &head, const Json &config) {
  std::string text = comments(head);
  addYaml(config, "", text);
  return text;
}

} // namespace kerf::exporting
