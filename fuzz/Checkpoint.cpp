// SPDX-License-Identifier: Apache-2.0
// Fuzzes index.json of a checkpoint. The checksum is corrected, so that the checks behind it are reached.
#include "kerf/Runtime/Checkpoint.h"
#include "Input.h"
#include "kerf/Support/Nesting.h"

#include <zlib.h>

using namespace kerf;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  std::string_view input(reinterpret_cast<const char *>(data), bytes);
  fuzz::judge(runtime::readIndex(input));
  if (jsonNesting(input) > kMaxJsonNesting)
    return 0;
  auto json = nlohmann::ordered_json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return 0;
  json.erase("checksum");
  std::string content = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  json["checksum"] = crc32_z(0, reinterpret_cast<const Bytef *>(content.data()), content.size());
  auto index = runtime::readIndex(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  fuzz::judge(index);
  if (index)
    fuzz::judge(runtime::readIndex(runtime::writeIndex(*index)));
  return 0;
}
