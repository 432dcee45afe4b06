// SPDX-License-Identifier: Apache-2.0
#include "BatchReader.h"
#include "kerf/Package/Convert.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::runtime {

namespace {
constexpr int64_t kSlots = 4;          // batches in memory: the one in use and those read ahead
constexpr size_t kUnpackedFiles = 2;   // unpacked files in memory: a batch may begin in one shard and end in the next
constexpr size_t kMostListedNames = 8; // names in one message

std::string listed(const std::vector<std::string> &names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMostListedNames); ++i)
    out += fmt::format("{}'{}'", i ? ", " : "", names[i]);
  if (names.size() > kMostListedNames)
    out += fmt::format(" and {} more", names.size() - kMostListedNames);
  return names.empty() ? "none" : out;
}

bool isFloating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

Status checkInput(const BatchInput &input, const DataArray &array, const std::vector<BatchInput> &inputs,
                  const DataOrder &order) {
  if (!array.problem.empty())
    return Error{array.problem};
  const Shape &shape = input.shape;
  Shape whole = array.row;
  whole.insert(whole.begin(), array.pieces.back().firstRow + array.pieces.back().rows);
  bool isSample = !shape.empty() && Shape(shape.begin() + 1, shape.end()) == array.row;
  if (!order.samples && array.row != shape)
    return Error{fmt::format("data: '{}' has shape {}, the model takes {} for each step; give [steps{}{}]{}",
                             input.name, shapeText(whole), shapeText(shape), shape.empty() ? "" : ", ",
                             fmt::join(shape, ", "),
                             isSample ? ", or <samples>, which makes batches of an array of samples" : "")};
  if (order.samples && (shape.empty() || inputs.front().shape.empty() || shape[0] != inputs.front().shape[0]))
    return Error{fmt::format("data: <samples> makes batches of samples, so every input must begin with the batch; "
                             "'{}' takes {}, '{}' takes {}: give arrays by step, without <samples>",
                             inputs.front().name, shapeText(inputs.front().shape), input.name, shapeText(shape))};
  if (order.samples && !isSample)
    return Error{fmt::format("data: '{}' has shape {}, the model takes {} for each batch; with <samples> that is "
                             "[samples{}{}]",
                             input.name, shapeText(whole), shapeText(shape), shape.size() > 1 ? ", " : "",
                             fmt::join(shape.begin() + 1, shape.end(), ", "))};
  if (whole[0] < 1)
    return Error{
        fmt::format("data: '{}' has no steps: its shape is {}; give at least one", input.name, shapeText(whole))};
  if (array.dtype != input.dtype && isFloating(array.dtype) != isFloating(input.dtype))
    return Error{fmt::format("data: '{}' is {}, the model takes {}: {} cannot be converted to {}: only floating types "
                             "into floating types, integers into integers; write the array as {}",
                             input.name, toString(array.dtype), toString(input.dtype), toString(array.dtype),
                             toString(input.dtype), toString(input.dtype))};
  return ok();
}

/// Fails for shuffled rows of several compressed files, which would require uncompressing a file for each row.
Status checkReadable(const DataSet &data, const std::vector<BatchInput> &inputs, const DataOrder &order) {
  if (!order.shuffle)
    return ok();
  for (const BatchInput &input : inputs) {
    const std::vector<DataPiece> &pieces = data.arrays.at(input.name).pieces;
    for (const DataPiece &piece : pieces)
      if (pieces.size() > kUnpackedFiles && piece.stored.compressed)
        return Error{fmt::format("data: '{}' is compressed in '{}' and {} other shards; <shuffle> reads rows of all "
                                 "shards in turn: write them with numpy.savez instead of savez_compressed",
                                 input.name, piece.file, pieces.size() - 1)};
  }
  return ok();
}
} // namespace

Result<int64_t> batchesOf(const DataSet &data, const std::vector<BatchInput> &inputs, const DataOrder &order) {
  std::vector<std::string> names, there;
  for (const BatchInput &input : inputs)
    names.push_back(input.name);
  for (const auto &[name, array] : data.arrays)
    there.push_back(name);
  for (const BatchInput &input : inputs) {
    auto found = data.arrays.find(input.name);
    if (found == data.arrays.end())
      return Error{fmt::format("data: the model's input '{}' is missing; it takes {}, the data has {}", input.name,
                               listed(names), listed(there))};
    if (Status status = checkInput(input, found->second, inputs, order); !status)
      return status.error();
  }
  auto rows = rowsOf(data, names);
  if (!rows)
    return rows.error();
  if (Status status = checkReadable(data, inputs, order); !status)
    return status.error();
  if (inputs.empty())
    return 1;
  if (!order.samples)
    return *rows;
  int64_t batch = inputs.front().shape[0];
  if (*rows < batch)
    return Error{fmt::format("data: {} samples are less than one batch of {}; give more samples", *rows, batch)};
  return *rows / std::max<int64_t>(1, batch);
}

BatchReader::BatchReader(const DataSet &data, std::vector<BatchInput> given, const DataOrder &order, int64_t batches,
                         int64_t requests, std::function<int64_t(int64_t)> batchOf, int64_t users)
    : data(data), inputs(std::move(given)), order(order), batches(batches), requests(requests),
      batchOf(std::move(batchOf)), slots(size_t(std::clamp<int64_t>(requests, 1, kSlots))), released(size_t(users), 0) {
  for (Slot &slot : slots)
    for (const BatchInput &input : inputs) {
      auto [tensor, bytes] = allocateTensor(input.dtype, input.shape);
      slot.tensors.push_back(tensor);
      slot.memory.push_back(bytes);
      slot.parts.push_back(bytes);
    }
  if (!inputs.empty())
    thread = std::thread([this] { work(); });
}

BatchReader::~BatchReader() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

Result<const std::vector<const std::byte *> *> BatchReader::next(int64_t user) {
  std::unique_lock lock(mutex);
  int64_t request = released[size_t(user)];
  Slot &slot = slots[size_t(request % int64_t(slots.size()))];
  if (inputs.empty())
    return &slot.parts;
  changed.wait(lock, [&] { return readSoFar > request || failure || stopping; });
  if (readSoFar > request)
    return &slot.parts;
  return failure.value_or(
      Error{"the data ended before the run did; report this plan, it is a bug of Kerf", ExitStatus::InternalCheck});
}

void BatchReader::release(int64_t user) {
  {
    std::lock_guard lock(mutex);
    ++released[size_t(user)];
  }
  changed.notify_all();
}

void BatchReader::work() {
  for (int64_t request = 0; request < requests; ++request) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] {
        return stopping || *std::min_element(released.begin(), released.end()) > request - int64_t(slots.size());
      });
      if (stopping)
        return;
    }
    Status status = ok();
    try {
      status = read(batchOf(request), slots[size_t(request % int64_t(slots.size()))]);
    } catch (const std::exception &exception) {
      status = Error{fmt::format("data: {}", exception.what())};
    }
    {
      std::lock_guard lock(mutex);
      if (status)
        ++readSoFar;
      else
        failure = status.error();
    }
    changed.notify_all();
    if (!status)
      return;
  }
}

Status BatchReader::read(int64_t batch, Slot &slot) {
  const int64_t pass = batch / batches, inPass = batch % batches;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BatchInput &input = inputs[i];
    const int64_t rows = order.samples ? input.shape[0] : 1, rowBytes = input.bytes() / std::max<int64_t>(1, rows);
    if (!order.shuffle) {
      if (Status status = readRows(input, inPass * rows, rows, slot.memory[i]); !status)
        return status;
      continue;
    }
    const std::vector<DataPiece> &pieces = data.arrays.at(input.name).pieces;
    const int64_t all = pieces.back().firstRow + pieces.back().rows;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t row = shuffledRow(order.seed, pass, all, inPass * rows + r);
      if (Status status = readRows(input, row, 1, slot.memory[i] + r * rowBytes); !status)
        return status;
    }
  }
  return ok();
}

Status BatchReader::readRows(const BatchInput &input, int64_t firstRow, int64_t rows, std::byte *out) {
  const DataArray &array = data.arrays.at(input.name);
  auto piece = std::upper_bound(array.pieces.begin(), array.pieces.end(), firstRow,
                                [](int64_t row, const DataPiece &each) { return row < each.firstRow; });
  for (--piece; rows > 0; ++piece) {
    int64_t skipped = firstRow - piece->firstRow, taken = std::min(rows, piece->rows - skipped);
    if (taken <= 0)
      continue; // a shard without rows
    if (Status status = readPiece(input.name, *piece, skipped, taken, array.row, input.dtype, out); !status)
      return status;
    out += taken * elementsOf(array.row) * bytesOf(input.dtype);
    firstRow += taken, rows -= taken;
  }
  return ok();
}

/// Reads `count` rows of the piece from row `firstRow` on and converts them to `dtype`. `row` is the shape of one row.
/// Allocates memory only to uncompress a file, or to convert more rows at once than before.
Status BatchReader::readPiece(const std::string &name, const DataPiece &piece, int64_t firstRow, int64_t count,
                              const Shape &row, DType dtype, std::byte *out) {
  const DType from = piece.file.empty() ? piece.tensor.dtype : piece.stored.dtype;
  const int64_t elements = count * elementsOf(row), bytes = elements * bytesOf(from);
  const uint64_t begin = uint64_t(firstRow) * uint64_t(elementsOf(row) * bytesOf(from));
  const std::byte *rows = nullptr;
  if (piece.file.empty()) {
    rows = piece.tensor.data + begin;
  } else if (piece.stored.compressed) {
    auto tensors = unpacked(piece.file);
    if (!tensors)
      return tensors.error();
    auto found = (*tensors)->find(name);
    if (found == (*tensors)->end() || found->second.dtype != from || found->second.shape != piece.stored.shape)
      return Error{fmt::format("'{}': array '{}' was changed while it was read; run again, and leave the file as it is",
                               piece.file, name)};
    rows = found->second.data + begin;
  } else {
    bool inOrder = !order.shuffle || data.arrays.at(name).pieces.size() == 1;
    if (inOrder && verified.insert(piece.file).second)
      if (Status status = verifyArrays(piece.file); !status)
        return status;
    if (from != dtype)
      unconverted.resize(size_t(bytes));
    std::byte *to = from == dtype ? out : unconverted.data();
    if (Status status = readBytes(piece.file, piece.stored.offset + begin, uint64_t(bytes), to); !status)
      return status;
    if (from == dtype)
      return ok();
    rows = to;
  }
  if (from == dtype) {
    std::memcpy(out, rows, size_t(bytes));
    return ok();
  }
  if (Status status = convertElements(from, rows, elements, dtype, out); !status)
    return Error{fmt::format("data: '{}' is {}, the model takes {}: in row {}{}: {}; correct the data", name,
                             toString(from), toString(dtype), firstRow,
                             piece.file.empty() ? "" : fmt::format(" of '{}'", piece.file), status.error().message)};
  return ok();
}

Result<const TensorMap *> BatchReader::unpacked(const std::string &file) {
  for (const auto &[name, tensors] : unpackedFiles)
    if (name == file)
      return &tensors;
  if (unpackedFiles.size() == kUnpackedFiles)
    unpackedFiles.erase(unpackedFiles.begin());
  auto tensors = readTensors(file);
  if (!tensors)
    return tensors.error();
  unpackedFiles.push_back({file, std::move(*tensors)});
  return &unpackedFiles.back().second;
}

} // namespace kerf::runtime
