// SPDX-License-Identifier: Apache-2.0
// Writes and reads index.json. A damaged index is detected by its checksum, and an index that was wrong when it was
// written by the checks of its boxes.
#include "CheckpointFiles.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Support/Nesting.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <zlib.h>

namespace kerf::runtime {

namespace {
using Json = nlohmann::ordered_json;
using package::ArgKind;

constexpr int64_t kVersion = 1;
constexpr int64_t kMostElements = INT64_MAX / 16; // so that sizes in bytes do not overflow
constexpr std::array kSavedKinds = {ArgKind::Parameter, ArgKind::Buffer, ArgKind::State};

std::string dump(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Returns the checksum of an index without its member `checksum`. White space does not matter.
uint32_t checksumOf(const Json &json) {
  std::string text = dump(json);
  return uint32_t(crc32_z(0, reinterpret_cast<const Bytef *>(text.data()), text.size()));
}

/// Reads the members of a JSON object, and keeps the first error.
class Members {
public:
  Members(const Json &json, std::string where) : json(json), where(std::move(where)) {
    if (!json.is_object())
      fail("is not an object");
  }

  const Json &at(const char *key) {
    static const Json kNothing;
    if (json.is_object())
      if (auto found = json.find(key); found != json.end())
        return *found;
    fail(fmt::format("has no {}", key));
    return kNothing;
  }

  int64_t size(const char *key) {
    const Json &member = at(key);
    if (member.is_number_unsigned() && member.get<uint64_t>() <= uint64_t(INT64_MAX))
      return member.get<int64_t>();
    fail(fmt::format("{} is not an integer from 0 on", key));
    return 0;
  }

  uint64_t number(const char *key) {
    const Json &member = at(key);
    if (member.is_number_unsigned())
      return member.get<uint64_t>();
    fail(fmt::format("{} is not an integer from 0 on", key));
    return 0;
  }

  Shape sizes(const char *key) {
    const Json &member = at(key);
    Shape shape;
    if (!member.is_array())
      fail(fmt::format("{} is not a list", key));
    else
      for (const Json &size : member) {
        if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t(INT64_MAX))
          fail(fmt::format("{} holds an entry that is not a size", key));
        else
          shape.push_back(size.get<int64_t>());
      }
    return shape;
  }

  std::string text(const char *key) {
    const Json &member = at(key);
    if (member.is_string())
      return member.get<std::string>();
    fail(fmt::format("{} is not a text", key));
    return {};
  }

  void fail(const std::string &what) {
    if (!error)
      error = Error{fmt::format("{} {}", where, what)};
  }
  Status status() const { return error ? Status(*error) : ok(); }

private:
  const Json &json;
  std::string where;
  std::optional<Error> error;
};

/// Returns the number of elements of a shape, or nothing if a size is negative or the number is too large.
std::optional<int64_t> elementsIn(const Shape &shape) {
  int64_t elements = 1;
  bool empty = false;
  for (int64_t size : shape) {
    empty = empty || size == 0;
    if (size < 0 || (size > 0 && elements > kMostElements / size))
      return std::nullopt;
    elements *= std::max<int64_t>(size, 1);
  }
  return empty ? 0 : elements;
}

bool isInside(const SavedBox &box, const Shape &shape) {
  if (box.begin.size() != shape.size() || box.count.size() != shape.size())
    return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (box.count[d] < 1 || box.count[d] > shape[d] || box.begin[d] > shape[d] - box.count[d])
      return false;
  return true;
}

bool overlap(const SavedBox &a, const SavedBox &b) {
  for (size_t d = 0; d < a.begin.size(); ++d)
    if (a.begin[d] + a.count[d] <= b.begin[d] || b.begin[d] + b.count[d] <= a.begin[d])
      return false;
  return true;
}

Status checkBoxes(const SavedTensor &tensor, size_t files) {
  auto elements = elementsIn(tensor.shape), exported = elementsIn(tensor.exportedShape);
  if (!elements || elements != exported)
    return Error{fmt::format("shape [{}] and exported shape [{}] have different numbers of elements",
                             fmt::join(tensor.shape, ", "), fmt::join(tensor.exportedShape, ", "))};
  std::vector<bool> used(files, false);
  int64_t covered = 0;
  for (size_t i = 0; i < tensor.boxes.size(); ++i) {
    const SavedBox &box = tensor.boxes[i];
    if (box.file < 0 || size_t(box.file) >= files || used[size_t(box.file)])
      return Error{fmt::format("box {} is in file {}, which does not exist or already has a box of the tensor; there "
                               "are {} files",
                               i, box.file, files)};
    used[size_t(box.file)] = true;
    if (!isInside(box, tensor.shape))
      return Error{fmt::format("box {} of [{}] elements at [{}] leaves the shape [{}]", i, fmt::join(box.count, ", "),
                               fmt::join(box.begin, ", "), fmt::join(tensor.shape, ", "))};
    covered += elementsOf(box.count); // does not overflow, because the boxes so far are disjoint
    for (size_t j = 0; j < i; ++j)
      if (overlap(box, tensor.boxes[j]))
        return Error{fmt::format("boxes {} and {} overlap", j, i)};
  }
  if (covered != *elements)
    return Error{fmt::format("its boxes hold {} of {} elements", covered, *elements)};
  return ok();
}

Result<SavedTensor> readTensor(const Json &json, const std::string &name, size_t files) {
  Members members(json, fmt::format("tensor '{}'", name));
  SavedTensor tensor;
  std::string kind = members.text("kind");
  auto known = std::find_if(kSavedKinds.begin(), kSavedKinds.end(),
                            [&](ArgKind candidate) { return package::toString(candidate) == kind; });
  if (known == kSavedKinds.end())
    members.fail(fmt::format("is a '{}': not one of parameter, buffer, state", kind));
  else
    tensor.kind = *known;
  std::string type = members.text("dtype");
  if (auto dtype = parseDType(type))
    tensor.dtype = *dtype;
  else
    members.fail(fmt::format("has the unknown dtype '{}'", type));
  tensor.shape = members.sizes("shape");
  tensor.exportedShape =
      json.is_object() && json.contains("exported_shape") ? members.sizes("exported_shape") : tensor.shape;
  const Json &boxes = members.at("boxes");
  if (!boxes.is_array())
    members.fail("has no list of boxes");
  for (size_t i = 0; boxes.is_array() && i < boxes.size(); ++i) {
    Members fields(boxes[i], fmt::format("tensor '{}', box {},", name, i));
    int64_t file = fields.size("file"), checksum = fields.size("checksum");
    tensor.boxes.push_back(
        {int(std::min<int64_t>(file, INT32_MAX)), fields.sizes("begin"), fields.sizes("count"), uint32_t(checksum)});
    if (Status status = fields.status(); !status)
      return status.error();
  }
  if (Status status = members.status(); !status)
    return status.error();
  if (Status status = checkBoxes(tensor, files); !status)
    return Error{fmt::format("tensor '{}': {}", name, status.error().message)};
  return tensor;
}

Status readFiles(const Json &json, CheckpointIndex &index) {
  if (!json.is_array())
    return Error{"files is not a list"};
  for (const Json &file : json) {
    Members members(file, fmt::format("file {}", index.files.size()));
    index.files.push_back({members.size("rank"), members.size("bytes")});
    if (Status status = members.status(); !status)
      return status;
    if (index.files.size() > 1 && index.files[index.files.size() - 2].rank >= index.files.back().rank)
      return Error{"files are not in the order of their ranks"};
  }
  return ok();
}

Json toJson(const SavedTensor &tensor) {
  Json json = {{"kind", package::toString(tensor.kind)}, {"dtype", toString(tensor.dtype)}, {"shape", tensor.shape}};
  if (tensor.exportedShape != tensor.shape)
    json["exported_shape"] = tensor.exportedShape;
  json["boxes"] = Json::array();
  for (const SavedBox &box : tensor.boxes)
    json["boxes"].push_back(
        {{"file", box.file}, {"begin", box.begin}, {"count", box.count}, {"checksum", box.checksum}});
  return json;
}
} // namespace

int64_t CheckpointIndex::bytes() const {
  int64_t sum = 0;
  for (const SavedFile &file : files)
    sum += file.bytes;
  return sum;
}

bool staysBetweenSteps(const package::Arg &arg) {
  return !package::isAccumulator(arg) &&
         std::find(kSavedKinds.begin(), kSavedKinds.end(), arg.kind) != kSavedKinds.end();
}

std::string fileName(const SavedFile &file) { return fmt::format("rank-{:05}.safetensors", file.rank); }
std::string checkpointName(int64_t nextStep) { return fmt::format("step-{:06}", nextStep); }

std::string writeIndex(const CheckpointIndex &index) {
  Json json = {{"kerf_checkpoint", kVersion}, {"next_step", index.nextStep},
               {"seed", index.seed},          {"data_steps", index.dataSteps},
               {"files", Json::array()},      {"tensors", Json::object()},
               {"info", index.info}};
  if (index.skippedSteps > 0)
    json["skipped_steps"] = index.skippedSteps;
  for (const SavedFile &file : index.files)
    json["files"].push_back({{"name", fileName(file)}, {"rank", file.rank}, {"bytes", file.bytes}});
  Json::object_t &tensors = json["tensors"].get_ref<Json::object_t &>();
  for (const auto &[name, tensor] : index.tensors)
    tensors.Container::emplace_back(name, toJson(tensor)); // faster than insertion, which would compare all names
  // One line for each file and each tensor, so that people can read the index.
  std::string text;
  for (const auto &[key, value] : json.items()) {
    text += fmt::format("{}{}: ", text.empty() ? "{" : ",\n ", dump(key));
    if (key != "files" && key != "tensors") {
      text += dump(value);
      continue;
    }
    text += value.is_array() ? '[' : '{';
    bool first = true;
    for (const auto &[name, entry] : value.items()) {
      text += std::exchange(first, false) ? "\n  " : ",\n  ";
      text += value.is_array() ? dump(entry) : dump(name) + ": " + dump(entry);
    }
    text += value.is_array() ? ']' : '}';
  }
  return text + fmt::format(",\n \"checksum\": {}}}\n", checksumOf(json));
}

Result<CheckpointIndex> readIndex(std::string_view text) {
  if (jsonNesting(text) > kMaxJsonNesting)
    return Error{"its lists and objects are nested too deeply: damaged"};
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return Error{"it is not JSON: truncated or damaged"};
  Members members(json, "it");
  int64_t version = members.size("kerf_checkpoint"), checksum = members.size("checksum");
  if (Status status = members.status(); !status)
    return status.error();
  if (version != kVersion)
    return Error{fmt::format("it is of version {}, this Kerf reads version {}", version, kVersion)};
  json.erase("checksum");
  if (int64_t actual = checksumOf(json); actual != checksum)
    return Error{fmt::format("it states the checksum {}, but its content has {}: damaged", checksum, actual)};

  CheckpointIndex index;
  index.nextStep = members.size("next_step");
  index.seed = members.number("seed");
  index.dataSteps = members.size("data_steps");
  index.info = members.at("info");
  if (json.contains("skipped_steps"))
    index.skippedSteps = members.size("skipped_steps");
  const Json &files = members.at("files"), &tensors = members.at("tensors");
  if (index.dataSteps < 1)
    members.fail(fmt::format("has data_steps {}, which is below 1", index.dataSteps));
  if (index.skippedSteps > index.nextStep)
    members.fail(fmt::format("has skipped {} of {} steps", index.skippedSteps, index.nextStep));
  if (!tensors.is_object())
    members.fail("has no tensors");
  if (Status status = members.status(); !status)
    return status.error();
  if (Status status = readFiles(files, index); !status)
    return status.error();
  for (const auto &[name, entry] : tensors.items()) {
    auto tensor = readTensor(entry, name, index.files.size());
    if (!tensor)
      return tensor.error();
    if (!index.tensors.emplace(name, std::move(*tensor)).second)
      return Error{fmt::format("tensor '{}' is listed twice", name)};
  }
  return index;
}

} // namespace kerf::runtime
