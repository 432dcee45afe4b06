// SPDX-License-Identifier: Apache-2.0
// Mutates JSON so that it stays JSON: exchanges, removes, duplicates values, and replaces them by extreme ones. One
// input in four is mutated as bytes instead.
#include "kerf/Support/Nesting.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);

namespace {
using Json = nlohmann::ordered_json;

struct Chance {
  std::minstd_rand engine;
  size_t below(size_t count) { return count ? engine() % count : 0; }
};

void collect(Json &json, std::vector<Json *> &values, int depth = 0) {
  values.push_back(&json);
  if (json.is_structured() && depth < 64)
    for (Json &child : json)
      collect(child, values, depth + 1);
}

Json extreme(Chance &chance) {
  const std::vector<Json> values = {nullptr,
                                    true,
                                    false,
                                    0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    7,
                                    64,
                                    100,
                                    1024,
                                    65536,
                                    0x7fffffff,
                                    0x80000000u,
                                    INT64_MAX,
                                    INT64_MIN,
                                    UINT64_MAX,
                                    0.5,
                                    -0.0,
                                    1e-320,
                                    1e308,
                                    3.5e38,
                                    "",
                                    "*",
                                    "inf",
                                    "nan",
                                    Json::array(),
                                    Json::object(),
                                    Json::array({0}),
                                    Json::array({-1, 1 << 30})};
  return values[chance.below(values.size())];
}

void erase(Json &json, size_t at) {
  if (json.is_array())
    json.erase(at);
  else
    json.erase(std::next(json.begin(), std::ptrdiff_t(at)));
}

void change(Json &json, Chance &chance) {
  std::vector<Json *> values;
  collect(json, values);
  Json &value = *values[chance.below(values.size())], &other = *values[chance.below(values.size())];
  Json copy = other;
  switch (chance.below(6)) {
  case 0:
    value = extreme(chance);
    return;
  case 1:
    value = std::move(copy);
    return;
  case 2:
    if (value.is_structured() && !value.empty())
      erase(value, chance.below(value.size()));
    return;
  case 3:
    if (value.is_array() && value.size() < 100)
      value.insert(value.begin() + std::ptrdiff_t(chance.below(value.size() + 1)),
                   value.empty() ? std::move(copy) : Json(value[chance.below(value.size())]));
    else if (value.is_object() && copy.is_object())
      value.update(copy);
    return;
  case 4:
    if (value.is_number_integer())
      value = int64_t(value.get<uint64_t>() + chance.below(5) - 2);
    else if (value.is_number())
      value = value.get<double>() * (chance.below(2) ? -1 : 1e10);
    else if (value.is_string() && copy.is_string())
      value = value.get<std::string>() + copy.get<std::string>();
    return;
  default:
    if (value.is_object() && !value.empty()) // renames one of its members
      value[copy.is_string() ? copy.get<std::string>() : "x"] =
          *std::next(value.begin(), std::ptrdiff_t(chance.below(value.size())));
  }
}
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed) {
  Chance chance{std::minstd_rand(seed)};
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  bool nests = kerf::jsonNesting(input) > kerf::kMaxJsonNesting; // deep nesting is left to the mutation of bytes
  Json json = nests ? Json() : Json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (nests || json.is_discarded() || chance.below(4) == 0)
    return LLVMFuzzerMutate(data, bytes, most);
  for (size_t i = 0, changes = 1 + chance.below(3); i < changes; ++i)
    change(json, chance);
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > most)
    return LLVMFuzzerMutate(data, bytes, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
