// SPDX-License-Identifier: Apache-2.0
#include "CodecCurves.h"
#include "kerf/Support/Suggest.h"

#include <cmath>
#include <fmt/format.h>

namespace kerf {

using compression::CodecCurve;
using Json = nlohmann::ordered_json;

namespace {

/// One key of a codec, and the member that it sets.
struct CurveKey {
  const char *key;
  double CodecCurve::*member;
  bool isRate; // whether the file has bytes/s, and the member seconds per byte
};
constexpr CurveKey kKeys[] = {{"encode_start_seconds", &CodecCurve::encodeStart, false},
                              {"encode_bytes_per_second", &CodecCurve::encodePerByte, true},
                              {"decode_start_seconds", &CodecCurve::decodeStart, false},
                              {"decode_bytes_per_second", &CodecCurve::decodePerByte, true}};

std::string readOne(const std::string &name, const Json &json, CodecCurve &curve) {
  if (!json.is_object())
    return fmt::format("codecs.{} is {}; it has to be an object with encode_bytes_per_second and "
                       "decode_bytes_per_second",
                       name, json.dump());
  std::vector<std::string> known;
  for (const CurveKey &key : kKeys) {
    known.emplace_back(key.key);
    if (!json.contains(key.key)) {
      if (key.isRate)
        return fmt::format("codecs.{} lacks \"{}\"; add it", name, key.key);
      continue;
    }
    const Json &value = json.at(key.key);
    double number = value.is_number() ? value.get<double>() : -1;
    if (!std::isfinite(number) || number < 0 || (key.isRate && !(number >= 1)))
      return fmt::format("codecs.{}.{} is {}; it has to be a finite number {}", name, key.key, value.dump(),
                         key.isRate ? "of bytes/s, 1 or more" : "of seconds, 0 or more");
    curve.*key.member = key.isRate ? 1 / number : number;
  }
  for (const auto &[key, unused] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return fmt::format("codecs.{} has the unknown key \"{}\"; {}", name, key, suggestion(key, known));
  return "";
}

} // namespace

std::string readCodecCurves(const Json &json, DeviceSpec &device) {
  if (!json.is_object())
    return fmt::format("codecs is {}; it has to be an object with an entry for each measured codec", json.dump());
  for (const auto &[name, value] : json.items()) {
    if (!compression::findCodec(name))
      return fmt::format("codecs has the unknown codec \"{}\"; {}", name, suggestion(name, compression::codecNames()));
    if (std::string wrong = readOne(name, value, device.codecs[name]); !wrong.empty())
      return wrong;
  }
  return "";
}

Json codecCurvesJson(const DeviceSpec &device) {
  Json json = Json::object();
  for (const auto &[name, curve] : device.codecs)
    for (const CurveKey &key : kKeys)
      json[name][key.key] = key.isRate ? 1 / (curve.*key.member) : curve.*key.member;
  return json;
}

} // namespace kerf
