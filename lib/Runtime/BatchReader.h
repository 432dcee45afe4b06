// SPDX-License-Identifier: Apache-2.0
// Reads the batches of a run in a thread, a few ahead of the ranks that use them.
#pragma once

#include "kerf/Runtime/DataSet.h"
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

namespace kerf::runtime {

/// What the program takes of each batch for one of its inputs.
struct BatchInput {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  int64_t bytes() const { return elementsOf(shape) * bytesOf(dtype); }
};

/// The number of batches in one pass through the data. Fails where the data does not fit the inputs.
Result<int64_t> batchesOf(const DataSet &data, const std::vector<BatchInput> &inputs, const DataOrder &order);

/// A source of batches for ranks. Each of its users asks for every batch, in order.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  /// Waits until the user's next batch is there. Element i of the result is input i's part, row-major, in the input's
  /// type; it stays until `release`.
  virtual Result<const std::vector<const std::byte *> *> next(int64_t user) = 0;
  /// The user needs its batch no more.
  virtual void release(int64_t user) = 0;
};

class BatchReader : public BatchSource {
public:
  /// Request r, for r in [0, requests), is batch `batchOf(r)`, counted through all passes of `batches` batches each.
  /// `data` must outlive the reader; `batches` is what batchesOf gave for it. Each of `users` asks for every request.
  BatchReader(const DataSet &data, std::vector<BatchInput> inputs, const DataOrder &order, int64_t batches,
              int64_t requests, std::function<int64_t(int64_t)> batchOf, int64_t users);
  ~BatchReader() override;
  BatchReader(const BatchReader &) = delete;
  BatchReader &operator=(const BatchReader &) = delete;

  Result<const std::vector<const std::byte *> *> next(int64_t user) override;
  void release(int64_t user) override;

private:
  struct Slot {
    std::vector<Tensor> tensors;
    std::vector<std::byte *> memory;      // of `tensors`
    std::vector<const std::byte *> parts; // the same, read-only
  };
  void work();
  Status read(int64_t batch, Slot &slot);
  Status readRows(const BatchInput &input, int64_t firstRow, int64_t rows, std::byte *out);
  Status readPiece(const std::string &name, const DataPiece &piece, int64_t firstRow, int64_t count, const Shape &row,
                   DType dtype, std::byte *out);
  Result<const TensorMap *> unpacked(const std::string &file);

  const DataSet &data;
  const std::vector<BatchInput> inputs;
  const DataOrder order;
  const int64_t batches, requests;
  const std::function<int64_t(int64_t)> batchOf;
  std::vector<Slot> slots;
  std::set<std::string> verified;                               // files whose checksums are right
  std::vector<std::pair<std::string, TensorMap>> unpackedFiles; // the last ones that were compressed
  std::vector<std::byte> unconverted;                           // rows of a file before their conversion

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> released; // requests, of each user
  int64_t readSoFar = 0;         // requests
  std::optional<Error> failure;
  bool stopping = false;
  std::thread thread;
};

} // namespace kerf::runtime
