// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/DataSet.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::runtime {

namespace {
namespace fs = std::filesystem;

/// The parts of a shard's file name. "tokens-00003" and "tokens-00003-of-00010" are shard 3 of "tokens"; numbers have
/// at least five digits.
struct ShardName {
  std::string base;
  std::optional<int64_t> number, count;
};

std::optional<int64_t> takeNumber(std::string &name) {
  constexpr size_t kLeastDigits = 5, kMostDigits = 15;
  size_t digits = 0;
  while (digits < name.size() && std::isdigit(static_cast<unsigned char>(name[name.size() - 1 - digits])))
    ++digits;
  if (digits < kLeastDigits || digits > kMostDigits || digits == name.size() || name[name.size() - 1 - digits] != '-')
    return std::nullopt;
  int64_t number = std::stoll(name.substr(name.size() - digits));
  name.resize(name.size() - digits - 1);
  return number;
}

ShardName shardName(const std::string &stem) {
  constexpr std::string_view kOf = "-of";
  ShardName found{stem, {}, {}};
  found.number = takeNumber(found.base);
  if (!found.number || !found.base.ends_with(kOf))
    return found;
  std::string rest = found.base.substr(0, found.base.size() - kOf.size());
  if (auto number = takeNumber(rest))
    return {rest, number, found.number};
  return found;
}

/// Checks that no shard is missing. `shards` are the names and paths of the files of one array, or of all arrays, in
/// the order of their numbers or names.
Status checkNumbers(const std::string &folder, const std::vector<std::pair<ShardName, std::string>> &shards) {
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto &[name, file] = shards[i];
    if (!name.number || name.base != shards[0].first.base)
      return ok(); // not all names have numbers, so the files are taken in the order of their names
    int64_t first = *shards[0].first.number;
    if (first > 1 || *name.number != first + int64_t(i))
      return Error{fmt::format("'{}': shard {} of '{}' is missing: the next file is '{}'; add it, or number the files "
                               "without gaps",
                               folder, first > 1 ? 0 : first + int64_t(i), name.base, file)};
  }
  if (auto count = shards.front().first.count; count && *count != int64_t(shards.size()))
    return Error{
        fmt::format("'{}': the name '{}' says that there are {} shards, but the folder has {}; add the others, or "
                    "rename the files",
                    folder, shards.front().second, *count, shards.size())};
  return ok();
}

/// Appends a piece to an array. An error is only noted in DataArray::problem, because it matters only if the model has
/// an input of the array's name.
void append(DataSet &data, const std::string &name, DataPiece piece, DType dtype, const Shape &shape) {
  DataArray &array = data.arrays[name];
  if (shape.empty()) {
    array.problem = fmt::format("{}: array '{}' is a scalar; it must have a first axis that counts steps (or samples)",
                                data.place, name);
    return;
  }
  Shape row(shape.begin() + 1, shape.end());
  if (array.pieces.empty()) {
    array.dtype = dtype;
    array.row = row;
  } else if (array.dtype != dtype || array.row != row) {
    array.problem =
        fmt::format("'{}': array '{}' is {} {}, in '{}' it is {} {}: all shards must have the same type and "
                    "the same axes behind the first",
                    piece.file, name, toString(dtype), shapeText(shape), array.pieces.front().file,
                    toString(array.dtype), shapeText(array.pieces.front().stored.shape));
  }
  piece.firstRow = array.pieces.empty() ? 0 : array.pieces.back().firstRow + array.pieces.back().rows;
  piece.rows = shape[0];
  array.pieces.push_back(std::move(piece));
}

/// Appends the arrays of a .npz file. Fails if the file does not have the same arrays as the shards before it.
Status appendNpz(DataSet &data, const std::string &file, bool isFirst) {
  auto arrays = listArrays(file);
  if (!arrays)
    return arrays.error();
  for (const auto &[name, array] : *arrays) {
    if (!isFirst && !data.arrays.count(name))
      return Error{fmt::format("'{}': array '{}' is in this shard and not in those before; write the same arrays into "
                               "all shards",
                               file, name)};
    DataPiece piece;
    piece.file = file;
    piece.stored = array;
    append(data, name, std::move(piece), array.dtype, array.shape);
  }
  for (const auto &[name, array] : data.arrays)
    if (!arrays->count(name))
      return Error{fmt::format("'{}': array '{}' is missing, which the shards before have; write the same arrays into "
                               "all shards",
                               file, name)};
  return ok();
}

Result<DataSet> openFolder(const std::string &folder) {
  DataSet data;
  data.place = fmt::format("'{}'", folder);
  // Files by the array that they hold; under "" if each file holds all arrays.
  std::map<std::string, std::vector<std::pair<ShardName, std::string>>> files;
  std::vector<std::pair<std::string, std::string>> found; // file name without extension, path
  std::error_code code;
  size_t archives = 0;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    std::string extension = entry->path().extension().string();
    if (entry->path().filename().string().front() == '.' || (extension != ".npz" && extension != ".npy"))
      continue;
    archives += extension == ".npz";
    found.push_back({entry->path().stem().string(), entry->path().string()});
  }
  if (code)
    return Error{fmt::format("cannot list '{}': {}; make the folder readable", folder, code.message())};
  if (found.empty())
    return Error{fmt::format("no .npy file in '{}', and no .npz file; give a folder with one of them", folder)};
  if (archives && archives != found.size())
    return Error{fmt::format("'{}' has {} .npz files and {} .npy files; give a folder of one kind", folder, archives,
                             found.size() - archives)};
  std::sort(found.begin(), found.end());
  for (const auto &[stem, path] : found) {
    ShardName name = shardName(stem);
    files[archives ? std::string() : name.base].push_back({name, path});
  }
  for (auto &[array, shards] : files) {
    std::stable_sort(shards.begin(), shards.end(), [](const auto &a, const auto &b) {
      return a.first.base == b.first.base && a.first.number && b.first.number && *a.first.number < *b.first.number;
    });
    if (Status status = checkNumbers(folder, shards); !status)
      return status.error();
    for (const auto &[name, path] : shards) {
      if (archives) {
        if (Status status = appendNpz(data, path, path == shards.front().second); !status)
          return status.error();
        continue;
      }
      auto listed = listArrays(path);
      if (!listed)
        return listed.error();
      DataPiece piece;
      piece.file = path;
      piece.stored = listed->at("");
      append(data, array, piece, piece.stored.dtype, piece.stored.shape);
    }
  }
  return data;
}

/// Applies a bijection of [0, 2^(2 * half)) that depends on `key`: eight rounds of a Feistel network.
uint64_t permuted(uint64_t key, int half, uint64_t value) {
  constexpr int kRounds = 8;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t left = value >> half, right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    // The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    uint64_t mixed = key + right + (round + 1) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
    uint64_t next = left ^ (mixed & mask);
    left = right, right = next;
  }
  return left << half | right;
}
} // namespace

Result<DataSet> openData(const std::string &path) {
  std::error_code code;
  if (fs::is_directory(path, code))
    return openFolder(path);
  if (!path.ends_with(".npz")) {
    auto tensors = readTensors(path);
    return tensors ? dataOf(*tensors) : Result<DataSet>(tensors.error());
  }
  DataSet data;
  data.place = fmt::format("'{}'", path);
  if (Status status = appendNpz(data, path, true); !status)
    return status.error();
  return data;
}

DataSet dataOf(const TensorMap &tensors) {
  DataSet data;
  data.place = "data";
  for (const auto &[name, tensor] : tensors) {
    DataPiece piece;
    piece.tensor = tensor;
    append(data, name, std::move(piece), tensor.dtype, tensor.shape);
  }
  return data;
}

Result<int64_t> rowsOf(const DataSet &data, const std::vector<std::string> &names) {
  int64_t rows = 0;
  const DataArray *first = nullptr;
  for (const std::string &name : names) {
    const DataArray &array = data.arrays.at(name);
    if (!array.problem.empty())
      return Error{array.problem};
    if (!first)
      first = &array;
    for (size_t i = 0; i < std::min(array.pieces.size(), first->pieces.size()); ++i)
      if (array.pieces[i].rows != first->pieces[i].rows) {
        bool sharded = array.pieces.size() > 1 || first->pieces.size() > 1;
        return Error{fmt::format("data: {}'{}' has {} steps, '{}' has {}; give all arrays the same number",
                                 sharded ? fmt::format("shard {} ('{}'): ", i, array.pieces[i].file) : "",
                                 names.front(), first->pieces[i].rows, name, array.pieces[i].rows)};
      }
    if (array.pieces.size() != first->pieces.size())
      return Error{fmt::format("data: '{}' has {} shards, '{}' has {}; give all arrays the same number", names.front(),
                               first->pieces.size(), name, array.pieces.size())};
    rows = array.pieces.back().firstRow + array.pieces.back().rows;
  }
  return rows;
}

int64_t shuffledRow(uint64_t seed, int64_t pass, int64_t rows, int64_t place) {
  constexpr int kLeastHalf = 4; // bits; smaller networks have too few permutations
  const int half = std::max(kLeastHalf, (int(std::bit_width(uint64_t(std::max<int64_t>(rows - 1, 1)))) + 1) / 2);
  const uint64_t key = seed * 0xd1342543de82ef95 + uint64_t(pass) * 0xaf251af3b0f025b5 + 1;
  uint64_t row = uint64_t(place);
  do // the bijection is repeated until it leads to a number below `rows`
    row = permuted(key, half, row);
  while (row >= uint64_t(rows));
  return int64_t(row);
}

} // namespace kerf::runtime
